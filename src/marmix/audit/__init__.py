"""Audit: a person labels a few of the rows whose label is missing, drawn by chance."""

from marmix.audit.audit import Audit, AuditResult, ClassEstimates
from marmix.audit.classifier import AuditedClassifier
from marmix.audit.intervals import Estimate

__all__ = ["Audit", "AuditResult", "AuditedClassifier", "ClassEstimates", "Estimate"]
