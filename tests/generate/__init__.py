"""Everything in the tree that is made from something else: `python -m tests.generate`, and with --check what drifted.

| made | from |
|---|---|
| hotplugctl/data/{rules,vendors,taxonomy}.json | the YAML beside them |
| hotplugctl/data/schemas/*.schema.json | the dataclasses of the model |
| completions/* | the command line's own parameters (`commands`) |
| man/* | the same parameters, the model's tables, and the prose written here |
"""
