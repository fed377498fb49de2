#!/usr/bin/env python3
"""Holds the Dockerfile, deploy/ and docs/operation.md against the tools that will read them, and against the daemon.

    scripts/check_deploy.py [--ckptd build/ckptd]

Dockerfile: hadolint. compose.yaml: docker compose itself. kubernetes/: the schemas of several releases, and what the objects
say of each other. ckptd.service: systemd-analyze, with a bound on the exposure. prometheus/: promtool, with the rules' tests.
dashboard.json: its grid, and every expression parsed. All: each CKPTD_ variable is a setting and each metric and label exists,
as `ckptd tables` tells. The packages of check_deploy.requirements.txt are put into a virtual environment under $CKPTD_CACHE
(default .cache) on the first call; promtool comes from Debian's package, unpacked there, never installed.
"""
import argparse
import collections
import glob
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

REPOSITORY = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CACHE = os.path.abspath(os.environ.get("CKPTD_CACHE", os.path.join(REPOSITORY, ".cache")))
VENV = os.path.join(CACHE, "deploy-venv")
REQUIREMENTS = os.path.splitext(os.path.abspath(__file__))[0] + ".requirements.txt"

KUBERNETES = ("1.27", "1.32", "1.37")
CUSTOM_KINDS = {"Kustomization", "ServiceMonitor"}  # no schema of Kubernetes itself
NOT_APPLIED = {"kustomization.yaml", "secret.example.yaml", "servicemonitor.yaml"}
EXPOSURE_MOST = 15  # of `systemd-analyze security`, times 10
GRID_WIDTH = 24

problems = []


def problem(where, what):
    problems.append(f"{where}: {what}")


def passed(text):
    print(f"ok {text}", flush=True)


# ---- the tools ----


def enter_venv():
    """Goes on in the virtual environment, which is made when it is missing or its requirements changed."""
    with open(REQUIREMENTS, "rb") as f:
        stamp = hashlib.sha256(sys.version.encode() + f.read()).hexdigest()
    stamp_path = os.path.join(VENV, "stamp")
    if not os.path.exists(stamp_path) or open(stamp_path).read() != stamp:
        print(f"making {VENV} (once)", file=sys.stderr)
        shutil.rmtree(VENV, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
        subprocess.run([f"{VENV}/bin/python", "-m", "pip", "install", "--quiet", "--no-input", "--no-deps", "-r", REQUIREMENTS],
                       check=True, stdout=subprocess.DEVNULL)
        with open(stamp_path, "w") as f:
            f.write(stamp)
    if os.path.realpath(sys.prefix) != os.path.realpath(VENV):
        os.execv(f"{VENV}/bin/python", [f"{VENV}/bin/python", *sys.argv])


def find_promtool():
    found = shutil.which("promtool") or os.path.join(CACHE, "prometheus", "usr/bin/promtool")
    if not os.path.exists(found):
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            subprocess.run(["apt-get", "download", "-qq", "prometheus"], cwd=folder, check=True, stderr=subprocess.DEVNULL)
            subprocess.run(["dpkg", "-x", *glob.glob(f"{folder}/*.deb"), os.path.join(CACHE, "prometheus")], check=True)
    return found


def run(where, *command, **more):
    done = subprocess.run(command, capture_output=True, text=True, **more)
    if done.returncode:
        problem(where, f"{os.path.basename(command[0])}: {(done.stdout + done.stderr).strip()}")
    return done


def read(path):
    with open(os.path.join(REPOSITORY, path)) as f:
        return f.read()


def in_deploy(pattern):
    return sorted(os.path.relpath(path, REPOSITORY) for path in glob.glob(os.path.join(REPOSITORY, "deploy", pattern), recursive=True)
                  if os.path.isfile(path))


# ---- the daemon's own names ----


class Tables:
    def __init__(self, binary):
        tables = json.loads(subprocess.run([binary, "tables"], check=True, capture_output=True).stdout)
        self.variables = {row["variable"] for part in ("settings", "limits") for row in tables[part]}
        self.metrics = {}
        for row in tables["metrics"]:
            labels = {label for label in row["labels"].split(",") if label}
            if row["type"] == "histogram":
                self.metrics[row["name"] + "_bucket"] = labels | {"le"}
                self.metrics[row["name"] + "_sum"] = self.metrics[row["name"] + "_count"] = labels
            else:
                self.metrics[row["name"]] = labels


def check_names(tables, paths):
    for path in paths:
        text = read(path)
        for name in sorted(set(re.findall(r"\bCKPTD_[A-Z][A-Z_]*\b", text)) - tables.variables):
            prefix = name.endswith("_") and any(variable.startswith(name) for variable in tables.variables)
            if not prefix and not (name == "CKPTD_PORT" and "enableServiceLinks" in text):  # there as what must not come
                problem(path, f"{name} is no setting")
        bases = {re.sub("_(bucket|sum|count)$", "", name) for name in tables.metrics} | set(tables.metrics)
        for name in sorted(set(re.findall(r"\b(?:ckptd|process)_[a-z]+(?:_[a-z]+)+\b", text)) - bases):
            problem(path, f"{name} is no metric")
    passed(f"names of settings and metrics in {len(paths)} files")


# ---- one function for each kind of file ----


def check_dockerfile():
    done = run("Dockerfile", f"{VENV}/bin/hadolint", "--no-color", os.path.join(REPOSITORY, "Dockerfile"))
    passed(f"Dockerfile: hadolint {done.stdout.strip() or 'has nothing to say'}")


def check_compose():
    path = os.path.join(REPOSITORY, "deploy/compose.yaml")
    done = run("deploy/compose.yaml", f"{VENV}/bin/docker-compose", "-f", path, "config", "--format", "json")
    if done.returncode:
        return
    for name, service in json.loads(done.stdout)["services"].items():
        wanted = {"read_only": True, "cap_drop": ["ALL"], "security_opt": ["no-new-privileges:true"], "user": "65532:65532",
                  "stop_grace_period": "30s"}
        for key, value in wanted.items():
            if service.get(key) != value:
                problem("deploy/compose.yaml", f"{name}: {key} is {service.get(key)}, not {value}")
        if any(mount["type"] == "tmpfs" for mount in service["volumes"]) or service.get("tmpfs"):
            problem("deploy/compose.yaml", f"{name}: a tmpfs, but the daemon writes to /data only")
    passed("compose.yaml: docker compose reads it; read-only, no capability")


def matches(selector, labels):
    return bool(selector) and selector.items() <= labels.items()


def check_references(objects):
    """What the objects say of each other; no schema knows that."""
    by_kind = collections.defaultdict(dict)
    for o in objects:
        by_kind[o["kind"]][o["metadata"]["name"]] = o
    for deployment in by_kind["Deployment"].values():
        template = deployment["spec"]["template"]
        labels, spec = template["metadata"]["labels"], template["spec"]
        ports = {port["name"] for container in spec["containers"] for port in container["ports"]}
        where = f"Deployment {deployment['metadata']['name']}"
        if deployment["spec"]["replicas"] != 1 or deployment["spec"]["strategy"]["type"] != "Recreate":
            problem(where, "two daemons could meet in one data directory")
        if spec["enableServiceLinks"]:
            problem(where, "the variables that Kubernetes makes of the Service stop the daemon")
        for volume in spec["volumes"]:
            claim, secret = volume.get("persistentVolumeClaim"), volume.get("secret")
            if claim and claim["claimName"] not in by_kind["PersistentVolumeClaim"] or secret and secret["secretName"] not in by_kind["Secret"]:
                problem(where, f"volume {volume['name']}: no such claim or secret")
        for container in spec["containers"]:
            for mount in container["volumeMounts"]:
                if mount["name"] not in {volume["name"] for volume in spec["volumes"]}:
                    problem(where, f"no volume {mount['name']}")
            for source in container["envFrom"]:
                if source["configMapRef"]["name"] not in by_kind["ConfigMap"]:
                    problem(where, "no such ConfigMap")
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                if container[probe]["httpGet"]["port"] not in ports:
                    problem(where, f"{probe}: no such port")
        if not matches(deployment["spec"]["selector"]["matchLabels"], labels):
            problem(where, "the selector does not find the pods")
        for service in by_kind["Service"].values():
            if not matches(service["spec"]["selector"], labels) or not {p["targetPort"] for p in service["spec"]["ports"]} <= ports:
                problem("Service", "does not lead to the pods' port")
        for kind, key in (("PodDisruptionBudget", "selector"), ("NetworkPolicy", "podSelector")):
            for o in by_kind[kind].values():
                if not matches(o["spec"][key]["matchLabels"], labels):
                    problem(kind, "does not find the pods")


def check_kubernetes():
    import kubernetes_validate
    import yaml

    objects = []
    for path in in_deploy("kubernetes/*.yaml"):
        for o in yaml.safe_load_all(read(path)):
            if o["kind"] not in CUSTOM_KINDS:
                objects.append(o)
            for version in KUBERNETES if o["kind"] not in CUSTOM_KINDS else ():
                try:
                    kubernetes_validate.validate(o, version, strict=True)
                except Exception as error:
                    problem(path, f"Kubernetes {version}: {error}")
    check_references(objects)
    names = {os.path.basename(path) for path in in_deploy("kubernetes/*.yaml")}
    applied = set(yaml.safe_load(read("deploy/kubernetes/kustomization.yaml"))["resources"])
    if applied != names - NOT_APPLIED:
        problem("deploy/kubernetes/kustomization.yaml", f"lists {sorted(applied)}, but there are {sorted(names - NOT_APPLIED)}")
    passed(f"kubernetes: {len(objects)} objects against the strict schemas of {', '.join(KUBERNETES)}, and against each other")


def check_systemd():
    if not shutil.which("systemd-analyze"):
        print("skipped ckptd.service: no systemd-analyze on this machine")
        return
    text = read("deploy/systemd/ckptd.service")
    with tempfile.TemporaryDirectory() as folder:
        unit = os.path.join(folder, "ckptd.service")
        with open(unit, "w") as f:  # the binary need not be installed
            f.write(re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", text, flags=re.MULTILINE))
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", unit], capture_output=True, text=True)
        if done.returncode or done.stderr.strip():  # unknown keys are only warned of
            problem("ckptd.service", done.stderr.strip())
        done = subprocess.run(["systemd-analyze", "security", "--offline=yes", "--no-pager", f"--threshold={EXPOSURE_MOST}", unit],
                              capture_output=True, text=True)
    verdict = (done.stdout.strip().splitlines() or ["no answer"])[-1].encode("ascii", "ignore").decode().strip(" >")
    if done.returncode:
        problem("ckptd.service", f"{verdict}; at most {EXPOSURE_MOST / 10} is allowed")
    passed(f"ckptd.service: systemd-analyze: {verdict}")


def expressions_of(node):
    """(expression, allowed labels beyond the metric's) of every target and annotation in a dashboard."""
    for panel in node["panels"]:
        for target in panel.get("targets", ()):
            yield f"panel {panel['title']}", target["expr"]
    for annotation in node["annotations"]["list"]:
        yield f"annotation {annotation['name']}", annotation["expr"]


def check_expression(tables, where, expression):
    import promql_parser as promql

    def look(node, grouped):
        if isinstance(node, promql.AggregateExpr):
            if node.modifier is not None and node.modifier.type == promql.AggModifierType.By:
                grouped = grouped | set(node.modifier.labels)
            look(node.expr, grouped)
        elif isinstance(node, promql.Call):
            for argument in node.args:
                look(argument, grouped)
        elif isinstance(node, promql.BinaryExpr):
            look(node.lhs, grouped)
            look(node.rhs, grouped)
        elif isinstance(node, (promql.ParenExpr, promql.SubqueryExpr, promql.UnaryExpr)):
            look(node.expr, grouped)
        elif isinstance(node, promql.MatrixSelector):
            look(node.vector_selector, grouped)
        elif isinstance(node, promql.VectorSelector):
            if node.name not in tables.metrics:
                problem(where, f"no metric {node.name}")
                return
            known = tables.metrics[node.name] | {"job", "instance"}
            for label in sorted((grouped | {matcher.name for matcher in node.matchers.matchers}) - known):
                problem(where, f"{node.name} has no label {label}")

    try:
        look(promql.parse(expression.replace("$__rate_interval", "5m")), set())
    except ValueError as error:
        problem(where, f"{expression}: {error}")


def check_prometheus(tables):
    import yaml

    for group in yaml.safe_load(read("deploy/prometheus/alerts.yaml"))["groups"]:
        for rule in group["rules"]:
            check_expression(tables, f"alert {rule['alert']}", rule["expr"])
            if not rule["annotations"].get("runbook"):
                problem(f"alert {rule['alert']}", "no runbook")
    promtool, folder = find_promtool(), os.path.join(REPOSITORY, "deploy/prometheus")
    run("alerts.yaml", promtool, "check", "rules", "alerts.yaml", cwd=folder)
    run("alerts_test.yaml", promtool, "test", "rules", "alerts_test.yaml", cwd=folder)
    run("scrape.yaml", promtool, "check", "config", "--syntax-only", "scrape.yaml", cwd=folder)
    passed("prometheus: promtool reads rules and scrape configuration; the rules' tests")


def check_dashboard(tables):
    where = "deploy/grafana/dashboard.json"
    dashboard = json.loads(read(where))
    variables = {row["name"] for row in dashboard["templating"]["list"]}
    ids, cells, used = set(), set(), set()
    for panel in dashboard["panels"]:
        grid = panel["gridPos"]
        covered = {(x, y) for x in range(grid["x"], grid["x"] + grid["w"]) for y in range(grid["y"], grid["y"] + grid["h"])}
        if panel["id"] in ids or covered & cells or grid["x"] + grid["w"] > GRID_WIDTH:
            problem(where, f"panel {panel['title']}: id or place is taken")
        ids.add(panel["id"])
        cells |= covered
    for name, expression in expressions_of(dashboard):
        used |= set(re.findall(r"\$(\w+)", expression)) - {"__rate_interval"}
        check_expression(tables, f"{where}: {name}", expression)
    if used - variables:
        problem(where, f"no variable {used - variables}")
    passed(f"dashboard.json: {len(list(expressions_of(dashboard)))} expressions in {len(ids)} panels")


def main():
    enter_venv()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ckptd", default=os.path.join(REPOSITORY, "build/ckptd"), help="the binary whose tables count (default: build/ckptd)")
    tables = Tables(os.path.abspath(parser.parse_args().ckptd))
    check_names(tables, [*in_deploy("**/*"), "Dockerfile", "docs/operation.md"])
    check_dockerfile()
    check_compose()
    check_kubernetes()
    check_systemd()
    check_prometheus(tables)
    check_dashboard(tables)
    for text in problems:
        print(f"FAILED {text}", file=sys.stderr)
    print(f"deploy: {len(problems)} problems" if problems else "deploy: all checks passed")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
