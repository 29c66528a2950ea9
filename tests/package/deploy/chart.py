"""Renders the chart with Helm's library: reads {"chart", "values"} as JSON, writes its findings as JSON.

{"lint": [...], "error": "..."} or {"lint": [...], "objects": {template: [object]}, "faults": [...]}; faults are of the schemas of Kubernetes.
"""

import json
import sys

import helm_python
import kubernetes_validate
import yaml

# The oldest that the chart declares, and the newest that is known here.
kubernetes_versions = ["1.27", "1.37"]
# Of a finding that only informs.
information = 1
# Not part of Kubernetes: definitions of the Prometheus operator.
without_schema = ["ServiceMonitor"]


def main() -> None:
    request = json.load(sys.stdin)
    found = helm_python.lint(request["chart"], values=request["values"])
    result = {"lint": [each for each in found["messages"] or [] if each["severity"] > information]}
    try:
        with helm_python.Chart.load(request["chart"]) as chart:
            files = chart.render(request["values"], name="demo", namespace="prod")
    except helm_python.HelmError as error:
        json.dump(result | {"error": str(error)}, sys.stdout)
        return
    objects = {}
    faults = []
    for name, text in files.items():
        if name.endswith(".txt"):
            continue
        objects[name] = [each for each in yaml.safe_load_all(text) if each]
        for each in objects[name]:
            if each["kind"] in without_schema:
                continue
            for version in kubernetes_versions:
                try:
                    kubernetes_validate.validate(each, version, strict=True)
                except kubernetes_validate.ValidationError as error:
                    faults.append(f"{name} with Kubernetes {version}: {error.message}")
    json.dump(result | {"objects": objects, "faults": faults}, sys.stdout)


main()
