"""`python -m mstarc_runtime.calibration < job.json > result.json`."""

import json
import sys
from typing import Any

from mstarc_runtime.errors import RuntimeFailure, render
from mstarc_runtime.settings import prepare_environment


def _result(job: dict[str, Any]) -> dict[str, Any]:
    # Not before the environment is prepared: loading torch fixes what its threads do.
    from mstarc_runtime.assembly import use_threads
    from mstarc_runtime.calibration.facts import measure_facts
    from mstarc_runtime.calibration.ops import measure_ops
    from mstarc_runtime.calibration.weigh import weigh

    use_threads(job["threads"])
    if job["what"] == "weigh":
        return {"weights": weigh(job), "ops": [], "facts": {}, "skipped": []}
    return {**measure_ops(job), "facts": measure_facts(job["device"])}


def main() -> int:
    """Measures what the job asks for; the exit status."""
    prepare_environment()
    job = json.load(sys.stdin)
    # Whatever a library prints must not end up in the result.
    out, sys.stdout = sys.stdout, sys.stderr
    try:
        result = _result(job)
    except RuntimeFailure as failure:
        print(render(failure), file=sys.stderr)
        return 2
    json.dump(result, out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
