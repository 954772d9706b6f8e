#!/usr/bin/env python3
"""Checks the manifests of examples/kubernetes, and runs their commands in pods made of namespaces.

    testsuites/engines/kubernetes_test.py DISTRUN FOLDER [ManifestTest.test_… | PodTest.test_…]

FOLDER has the schemas (cmake/setup.sh kubernetes).  Without it, the test prints so and exits with 77.  Tests that make namespaces are
skipped where that is not permitted.

A pod has the environment and the files that the sources of Kubernetes 1.34, JobSet 0.12 and Kubeflow Trainer 2.3 give it.  No cluster is
involved.
"""

import copy
import dataclasses
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import unittest

SKIPPED = 77
LIMIT_S = 60
KUBERNETES = "1.34"
DISTRUN = ""
EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples/kubernetes"
PLACE = 'echo "$RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $GROUP_RANK/$GROUP_WORLD_SIZE $MASTER_ADDR:$MASTER_PORT"'
NAMESPACE = ["unshare", *([] if os.geteuid() == 0 else ["--map-root-user"])]
# Makes a pod of the shell that runs it, and runs a command in it: HOSTS LOG NAME COMMAND…
# As in a pod, the termination log is a mount.
POD = """
set -e
mount --bind "$1" /etc/hosts
mount -t tmpfs none /mnt
for device in null zero urandom; do touch /mnt/$device; mount --bind /dev/$device /mnt/$device; done
mkdir /mnt/shm
touch /mnt/termination-log
mount --bind "$2" /mnt/termination-log
mount --rbind /mnt /dev
hostname "$3"
shift 3
exec "$@"
"""


def documents(name):
    """The documents of a manifest."""
    return list(yaml.safe_load_all((EXAMPLES / name).read_text(encoding="utf-8")))


@dataclasses.dataclass
class Pod:
    """What a pod sees."""
    host: str
    domain: str
    index: int
    variables: dict
    command: list

    def environment(self):
        return {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOSTNAME": self.host, "JOB_COMPLETION_INDEX": str(self.index),
                "KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443", **self.variables}

    def address(self):
        return f"10.1.30.{10 + self.index}"

    def hosts(self):
        """The file that the kubelet writes."""
        own = f"{self.address()}\t{self.host}.{self.domain}\t{self.host}" if self.domain else f"{self.address()}\t{self.host}"
        return f"# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n{own}\n"

    def names(self):
        """What DNS knows of it, as lines of a hosts file."""
        service = self.domain.split(".")[0]
        return f"{self.address()}\t{self.host}.{self.domain} {self.host}.{service}\n" if self.domain else ""


def pods_of_job(name, spec, subdomain=None):
    """The pods of a Job with indexes."""
    template = spec["template"]["spec"]
    container, = template["containers"]
    subdomain = subdomain or template.get("subdomain")
    return [Pod(host=f"{name}-{index}", domain=f"{subdomain}.default.svc.cluster.local" if subdomain else "", index=index,
                variables={each["name"]: each["value"] for each in container.get("env", [])}, command=container["command"])
            for index in range(spec["completions"])]


def pods_of(name):
    """The pods of a manifest."""
    *_, manifest = documents(name)
    title, spec = manifest["metadata"]["name"], manifest["spec"]
    if manifest["kind"] == "Job":
        return pods_of_job(title, spec)
    if manifest["kind"] == "JobSet":
        job, = spec["replicatedJobs"]
        return pods_of_job(f"{title}-{job['name']}-0", job["template"]["spec"], subdomain=title)
    trainer = spec["trainer"]
    nodes = trainer["numNodes"]
    job = {"completions": nodes, "template": {"spec": {"containers": [{"command": trainer["command"]}]}}}
    pods = pods_of_job(f"{title}-node-0", job, subdomain=title)
    for pod in pods:
        pod.variables.update(PET_NNODES=str(nodes), PET_NPROC_PER_NODE=str(trainer["numProcPerNode"]), PET_NODE_RANK=str(pod.index),
                             PET_MASTER_ADDR=f"{title}-node-0-0.{title}", PET_MASTER_PORT="29500")
    return pods


def problems_of(manifest):
    """Why the schema of its kind refuses a manifest; empty if it does not."""
    kind = manifest["kind"]
    if kind in ("JobSet", "TrainJob"):
        model = {"JobSet": models.JobsetV1alpha2JobSet, "TrainJob": models.TrainerV1alpha1TrainJob}[kind]
        try:
            known = model.from_dict(copy.deepcopy(manifest)).to_dict()
        except ValueError as refused:
            return str(refused)
        if known != manifest:  # It drops fields that it does not know.
            return f"of {manifest}, only {known} is known"
        jobs = manifest["spec"].get("replicatedJobs", [])
        head = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job"}}
        return "".join(problems_of({**head, **job["template"]}) for job in jobs)
    try:
        kubernetes_validate.validate(manifest, KUBERNETES, strict=True)
    except kubernetes_validate.ValidationError as refused:
        return refused.message
    return ""


class ManifestTest(unittest.TestCase):
    NAMES = ["indexed-job.yaml", "jobset.yaml", "trainjob.yaml"]

    def test_all_manifests_are_tested(self):
        self.assertEqual(sorted(path.name for path in EXAMPLES.glob("*.yaml")), self.NAMES)

    def test_the_schemas_accept_the_manifests(self):
        for name in self.NAMES:
            for manifest in documents(name):
                self.assertEqual(problems_of(manifest), "", name)

    def test_the_schemas_refuse_a_wrong_field_and_a_wrong_type(self):
        for name in self.NAMES:
            *_, manifest = documents(name)
            unknown, wrong = copy.deepcopy(manifest), copy.deepcopy(manifest)
            unknown["spec"]["backOffLimit"] = 1
            self.assertNotEqual(problems_of(unknown), "", name)
            if name == "trainjob.yaml":
                wrong["spec"]["trainer"]["numNodes"] = "2"
            elif name == "jobset.yaml":
                wrong["spec"]["replicatedJobs"][0]["template"]["spec"]["completions"] = "2"
            else:
                wrong["spec"]["completions"] = "2"
            self.assertNotEqual(problems_of(wrong), "", name)

    def test_a_job_has_its_service_and_as_many_nodes_as_completions(self):
        service, job = documents("indexed-job.yaml")
        self.assertEqual(service["metadata"]["name"], job["spec"]["template"]["spec"]["subdomain"])
        self.assertEqual(service["spec"]["selector"], {"batch.kubernetes.io/job-name": job["metadata"]["name"]})
        for name in ("indexed-job.yaml", "jobset.yaml"):
            pods = pods_of(name)
            self.assertEqual({pod.variables["PET_NNODES"] for pod in pods}, {str(len(pods))})


class PodTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        tried = subprocess.run([*NAMESPACE, "--mount", "--uts", "--net", "--pid", "--fork", "true"], capture_output=True, text=True,
                               check=False)
        if tried.returncode != 0:
            self.skipTest(f"namespaces are not permitted here: {tried.stderr.strip()}")

    def in_pod(self, pod, command, more_hosts=""):
        """The words that run a command in a pod whose DNS has `more_hosts`."""
        hosts = self.folder / f"hosts-{pod.host}"
        hosts.write_text(pod.hosts() + more_hosts, encoding="utf-8")
        log = self.folder / f"{pod.host}.log"
        log.touch()
        return [*NAMESPACE, "--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc",
                "sh", "-c", POD, "pod", str(hosts), str(log), pod.host, "env", "-i", *(f"{name}={value}" for name, value in pod.environment().items()), *command]

    def run_one(self, pod, *command):
        return subprocess.run(self.in_pod(pod, command), capture_output=True, text=True, check=False, timeout=LIMIT_S,
                              stdin=subprocess.DEVNULL)

    def run_all(self, pods, program):
        """Runs the command of each pod with another program, all in one network, and returns what each has done."""
        network = ["ip link set lo up"] + [f"ip address add {pod.address()}/32 dev lo" for pod in pods]
        names = "".join(pod.names() for pod in pods)
        starts = []
        for pod in pods:
            flags = pod.command[1:pod.command.index("train_digits.py")]
            command = [DISTRUN, *flags, "sh", "-c", program]
            others = names.replace(pod.names(), "")  # A pod that has just started may not be in DNS yet.
            words = shlex.join(self.in_pod(pod, command, others))
            out = shlex.quote(str(self.folder / pod.host))
            starts.append(f"{{ {words} >{out}.out 2>{out}.err; echo $? >{out}.status; }} &")
        script = "\n".join([*network, *starts, "wait"])
        # If the time is over, all processes of the namespace are killed.
        subprocess.run([*NAMESPACE, "--net", "--pid", "--fork", "--kill-child", "sh", "-c", script], check=True, timeout=LIMIT_S,
                       stdin=subprocess.DEVNULL)
        return [tuple((self.folder / f"{pod.host}.{part}").read_text(encoding="utf-8") for part in ("out", "err", "status", "log"))
                for pod in pods]

    def test_env_explains_the_place_of_each_pod(self):
        for name in ManifestTest.NAMES:
            for pod in pods_of(name):
                done = self.run_one(pod, DISTRUN, "env", "--explain")
                self.assertEqual((done.returncode, done.stderr), (0, ""), name)
                if name == "trainjob.yaml":  # Kubeflow says everything in flags.
                    self.assertIn("engine  Kubernetes (Job train-node-0)\nplace   this node only: PET_NODE_RANK is given\n", done.stdout)
                    self.assertRegex(done.stdout, f"--node-rank {pod.index} +PET_NODE_RANK\n")
                    continue
                job = pod.host.rpartition("-")[0]
                self.assertIn(f"engine  Kubernetes (Job {job})\nplace   one task per node: node {pod.index} of 2\n", done.stdout)
                self.assertRegex(done.stdout, f"--master-addr {job}-0.train.default.svc.cluster.local +/etc/hosts\n")
                self.assertRegex(done.stdout, f"--node-rank {pod.index} +JOB_COMPLETION_INDEX\n")

    def test_the_pods_of_each_manifest_are_one_run(self):
        for name in ManifestTest.NAMES:
            pods = pods_of(name)
            done = self.run_all(pods, PLACE)
            first = f"{pods[0].host}.train" if name == "trainjob.yaml" else f"{pods[0].host}.train.default.svc.cluster.local"
            for pod, (out, err, status, log) in zip(pods, done):
                self.assertEqual((status, log), ("0\n", ""), f"{name}: {err}")
                self.assertEqual(sorted(out.splitlines()),
                                 [f"{2 * pod.index + local}/4 {local}/2 {pod.index}/2 {first}:29500" for local in range(2)])

    def test_each_pod_says_who_failed_and_exits_with_the_status_of_the_failed_rank(self):
        for out, err, status, log in self.run_all(pods_of("indexed-job.yaml"), '[ "$RANK" != 3 ] || exit 7; sleep 600'):
            self.assertEqual(status, "7\n", out + err)
            self.assertIn("distrun: node 1 (train-1): rank 3 failed: exit code 7\n", err)
            self.assertTrue(log.startswith("distrun: node 1 (train-1): rank 3 failed: exit code 7\n"), log)

    def test_pods_are_independent_without_the_number_of_nodes(self):
        for pod in pods_of("indexed-job.yaml"):
            del pod.variables["PET_NNODES"]
            done = self.run_one(pod, DISTRUN, "launch", "sh", "-c", PLACE.replace(":$MASTER_PORT", ""))
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "0/1 0/1 0/1 127.0.0.1\n", ""))

    def test_without_a_subdomain_the_address_is_required(self):
        pod = pods_of("indexed-job.yaml")[1]
        pod.domain = ""
        done = self.run_one(pod, DISTRUN, "launch", "true")
        self.assertEqual(done.returncode, 2)
        self.assertIn("Kubernetes started this pod without a subdomain, so the address of node 0 is unknown: set the subdomain to a headless "
                      "service, or give --master-addr HOST\n", done.stderr)


def main():
    global DISTRUN, kubernetes_validate, models, yaml
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    DISTRUN = str(pathlib.Path(sys.argv.pop(1)).resolve())
    sys.path.insert(0, str(pathlib.Path(sys.argv.pop(1)).resolve()))
    try:
        import kubernetes_validate
        import yaml
        from kubeflow_trainer_api import models
    except ImportError as missing:
        print(f"skipped: {missing}; run cmake/setup.sh kubernetes")
        sys.exit(SKIPPED)
    unittest.main(verbosity=2)


if __name__ == "__main__":
    main()
