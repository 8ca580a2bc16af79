"""Deployment files: the YAML that says where a spec runs, and the devices that there are.

`read_deployment` turns the text of a file into a `Deployment` whose every value has a span, or
reports what is wrong with it; whether its names are those of a program is for the pass `place`.
The only package that knows yaml. Start at `model.py`.
"""

from mstarc.deployment.catalog import (
    CATALOG,
    Cluster,
    DeviceKind,
    Devices,
    Link,
    device_kind,
    parse_devices,
)
from mstarc.deployment.model import Deployment, Group, Kwarg, Named, Number
from mstarc.deployment.reader import read_deployment

__all__ = [
    "CATALOG",
    "Cluster",
    "Deployment",
    "DeviceKind",
    "Devices",
    "Group",
    "Kwarg",
    "Link",
    "Named",
    "Number",
    "device_kind",
    "parse_devices",
    "read_deployment",
]
