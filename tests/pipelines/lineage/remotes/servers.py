"""Three places for a DVC remote, each a real one: a folder, S3 as moto serves it, and SSH by Debian's sshd with keys of its own."""

import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest

SSHD = Path("/usr/sbin/sshd")
BUCKET = "hindcast"
OBJECTS = "files/md5"


class Place(Protocol):
    """Where a remote keeps its objects; `settings` are those of 'dvc remote modify'."""

    url: str
    settings: dict[str, str]

    def objects(self) -> list[str]:
        """The md5 of every object that is there."""

    def damage(self, md5: str) -> None:
        """Turns over one bit of an object; its length stays."""

    def remove(self, md5: str) -> None:
        """Removes an object, if it is there."""


@dataclass
class Folder:
    """Objects that lie in a folder of this machine, however they are reached."""

    root: Path
    url: str
    settings: dict[str, str]

    def objects(self) -> list[str]:
        found = [path.relative_to(self.root / OBJECTS).as_posix() for path in (self.root / OBJECTS).glob("*/*") if path.is_file()]
        return [name.replace("/", "") for name in found if len(name.removesuffix(".dir")) == 33]  # what is being written has another name

    def damage(self, md5: str) -> None:
        path = self._path(md5)
        path.chmod(0o644)
        path.write_bytes(turned(path.read_bytes()))

    def remove(self, md5: str) -> None:
        self._path(md5).unlink(missing_ok=True)

    def _path(self, md5: str) -> Path:
        return self.root / OBJECTS / md5[:2] / md5[2:]


@dataclass
class Bucket:
    """Objects in a bucket of S3."""

    client: Any
    url: str
    settings: dict[str, str]

    def objects(self) -> list[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
        keys = [entry["Key"] for page in pages for entry in page.get("Contents", ())]
        return ["".join(key.split("/")[-2:]) for key in keys if OBJECTS in key]

    def damage(self, md5: str) -> None:
        body = self.client.get_object(Bucket=BUCKET, Key=self._key(md5))["Body"].read()
        self.client.put_object(Bucket=BUCKET, Key=self._key(md5), Body=turned(body))

    def remove(self, md5: str) -> None:
        self.client.delete_object(Bucket=BUCKET, Key=self._key(md5))

    def _key(self, md5: str) -> str:
        return f"store/{OBJECTS}/{md5[:2]}/{md5[2:]}"


def turned(content: bytes) -> bytes:
    return content[:-1] + bytes([content[-1] ^ 1])


@contextmanager
def folder(root: Path) -> Iterator[Place]:
    yield Folder(root / "store", str(root / "store"), {})


@contextmanager
def s3(_root: Path) -> Iterator[Place]:
    boto3 = pytest.importorskip("boto3", reason="boto3 is not installed")
    server = pytest.importorskip("moto.server", reason="moto is not installed").ThreadedMotoServer(
        ip_address="127.0.0.1", port=0, verbose=False
    )
    server.start()
    host, port = server.get_host_and_port()
    secrets = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "region_name": "us-east-1"}
    client = boto3.client("s3", endpoint_url=f"http://{host}:{port}", **secrets)
    try:
        client.create_bucket(Bucket=BUCKET)
        settings = {"endpointurl": f"http://{host}:{port}", "access_key_id": "test", "secret_access_key": "test", "region": "us-east-1"}
        yield Bucket(client, f"s3://{BUCKET}/store", settings)
    finally:
        client.close()
        server.stop()


@contextmanager
def ssh(root: Path) -> Iterator[Place]:
    """An sshd of this user's, on a free port, with keys of its own."""
    if not SSHD.exists() or not shutil.which("ssh-keygen"):
        pytest.skip("Debian's openssh-server is not installed")
    pytest.importorskip("dvc_ssh", reason="dvc-ssh is not installed")
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", root / name], check=True)
    port = free_port()
    (root / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {root}/host\nAuthorizedKeysFile {root}/user.pub\nPidFile none\nStrictModes no\n"
        "UsePAM no\nPasswordAuthentication no\nSubsystem sftp internal-sftp\n"
    )
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # which it wants of root
    with subprocess.Popen([SSHD, "-D", "-e", "-f", root / "sshd_config"], stderr=subprocess.PIPE, text=True) as process:
        try:
            wait_for(port, process)
            settings = {"keyfile": str(root / "user"), "user": getpass.getuser()}
            yield Folder(root / "store", f"ssh://127.0.0.1:{port}{root}/store", settings)
        finally:
            process.terminate()


def free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


def wait_for(port: int, process: subprocess.Popen[str], seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if process.poll() is not None:
            pytest.skip(f"sshd does not start here: {process.stderr.read() if process.stderr else ''}")
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    pytest.fail(f"sshd did not answer on port {port} within {seconds} s")


PLACES = {"folder": folder, "s3": s3, "ssh": ssh}
