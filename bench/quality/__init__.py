"""Does the model still pick the right tool, and is the answer right, under that load?

In go tasks (what was expected) and records (what was done); out come grades per level with
Wilson intervals: TSA and its outcomes, answer correctness (methods.md section 6).
"""
