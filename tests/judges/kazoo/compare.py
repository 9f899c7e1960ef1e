"""Compares the outcomes of two runs: which tests pass in the second alone. Fails if these are more than 5 of 100."""
import sys
import xml.etree.ElementTree as xml

LEAST = 0.95


def outcomes(path):
    """Whether each test has passed; without those that were skipped."""
    cases = [case for case in xml.parse(path).iter("testcase") if case.find("skipped") is None]
    return {
        f"{case.get('classname')}.{case.get('name')}": case.find("failure") is None and case.find("error") is None
        for case in cases
    }


here, real = (outcomes(path) for path in sys.argv[1:])
due = [name for name, passed in real.items() if passed]
missing = [name for name in due if not here.get(name)]
for name in missing:
    print(f"not here: {name}")
for name in sorted(name for name, passed in here.items() if passed and not real.get(name)):
    print(f"here alone: {name}")
print(f"{len(due) - len(missing)} of the {len(due)} tests that pass on a real server pass on zkr serve")
sys.exit(0 if due and len(missing) <= (1 - LEAST) * len(due) else 1)
