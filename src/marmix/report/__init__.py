"""The report: one HTML page that needs no other file."""

from marmix.report.contents import Contents, Findings
from marmix.report.page import report_html

__all__ = ["Contents", "Findings", "report_html"]
