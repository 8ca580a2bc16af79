"""Whether what is installed here has known vulnerabilities: `python -m tests.support.audit`.

Asks the package index's advisories through pip-audit. Without a way to them nothing can be said,
and that is said. The exit status is 1 where something is known, beside `ACCEPTED`.
"""

import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping

ADVISORIES = "https://pypi.org/pypi/starlette/json"
REACH_S = 5.0
AUDIT_S = 120.0
# Known, and why it does not concern us: id → reason.
ACCEPTED: Mapping[str, str] = {}


def can_reach_advisories() -> bool:
    try:
        with urllib.request.urlopen(ADVISORIES, timeout=REACH_S) as answer:
            return "vulnerabilities" in json.load(answer)
    except (urllib.error.URLError, TimeoutError, OSError, ValueError):
        return False


def findings(report: str) -> tuple[int, list[str]]:
    """Packages that were looked up, and a line for each thing that is known of them.

    >>> findings('{"dependencies": [{"name": "a", "version": "1", "vulns": ['
    ... '{"id": "PYSEC-1", "fix_versions": ["2"]}]}, {"name": "b", "skip_reason": "?"}]}')
    (1, ['a 1: PYSEC-1, mended in 2'])
    """
    looked_up = [entry for entry in json.loads(report)["dependencies"] if "version" in entry]
    return len(looked_up), [
        f"{entry['name']} {entry['version']}: {known['id']}, "
        f"mended in {', '.join(known['fix_versions']) or 'no version yet'}"
        for entry in looked_up
        for known in entry["vulns"]
        if known["id"] not in ACCEPTED
    ]


def main() -> int:
    if not can_reach_advisories():
        print("audit: skipped, for advisories can't be reached from here")
        return 0
    words = ("--local", "--skip-editable", "--progress-spinner", "off", "--format", "json")
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pip_audit", *words],
            capture_output=True,
            text=True,
            timeout=AUDIT_S,
            check=False,
        )
        count, known = findings(done.stdout)
    except (subprocess.TimeoutExpired, ValueError):
        print("audit: skipped, for advisories have not come in time")
        return 0
    for line in known:
        print(f"audit: {line}")
    print(f"audit: {count} packages looked up, {len(known)} with a known vulnerability")
    return 1 if known else 0


if __name__ == "__main__":
    sys.exit(main())
