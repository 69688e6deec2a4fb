"""What do people read? One self-contained page, one Markdown file, JSON for machines.

In goes `Content` (every table of the analysis); out come report.html, report.md and the
schema-versioned JSON files that results/README.md documents. Nothing is computed here.
"""
