"""The report: one HTML page that needs no other file."""

from marmix.pages.contents import Contents, Findings
from marmix.pages.page import report_html

__all__ = ["Contents", "Findings", "report_html"]
