"""The audit: does what is on disk, or what a revision names, still follow from what was run? A verdict a link, the first broken one named.

Each theme has a file, and each check in it is a function (Scene, Stage) -> findings; `run` lists them.
"""

from pipelines.lineage.audit.findings import Finding, Verdict, exit_code
from pipelines.lineage.audit.run import audit_project, audit_stages

__all__ = ["Finding", "Verdict", "audit_project", "audit_stages", "exit_code"]
