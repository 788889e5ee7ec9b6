"""What each stage execution did, and what follows from it: records, the graph of artifacts, and the audit of both."""
