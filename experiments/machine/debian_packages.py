"""What Debian's package manager knows of a bundle's libraries: the packages that they come from, with
versions and licence texts. On a system without it nothing is known.
"""

import hashlib
import platform
import re
import subprocess
import urllib.parse
from pathlib import Path

SHARE = Path("/usr/share")


def sha256_of(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def output_of(*command):
    """Standard output; "" where there is no such command. dpkg-query fails for one unknown name, and
    tells the others."""
    try:
        return subprocess.run(command, capture_output=True, text=True).stdout
    except FileNotFoundError:
        return ""


def package_versions(packages):
    """Debian package -> version, of those that are installed."""
    if not packages:
        return {}
    listed = output_of("dpkg-query", "-W", "-f=${db:Status-Status} ${Package} ${Version}\n", *packages)
    lines = [line.split() for line in listed.splitlines()]
    return {line[1]: line[2] for line in lines if len(line) == 3 and line[0] == "installed"}


def packages_of(files):
    """Bundled file -> the Debian package whose file of that name has the same bytes."""
    names = {Path(path).name: path for path in files}
    found = {}
    for line in output_of("dpkg-query", "-S", "*/lib*.so*").splitlines():
        package, _, source = line.rpartition(": ")
        bundled = names.get(Path(source).name)
        if bundled and Path(source).is_file() and sha256_of(source) == files[bundled]:
            found[bundled] = package.split(":")[0]
    return found


def package_of_headers(beginning):
    """The Debian package that has the folder of #include <BEGINNING...>; "" for none. The package
    that setup installs may only depend on it."""
    return output_of("dpkg-query", "-S", f"/usr/include/{beginning.rstrip('/')}").partition(":")[0]


def package_url(package, version):
    """The package URL of a Debian package of this system."""
    release = dict(line.split("=", 1) for line in Path("/etc/os-release").read_text().splitlines()
                   if "=" in line)  # fmt: skip
    system = release.get("ID", "debian").strip('"')
    architecture = output_of("dpkg", "--print-architecture").strip() or platform.machine()
    return f"pkg:deb/{system}/{package}@{urllib.parse.quote(version, safe='')}?arch={architecture}"


def licence_texts(package, share=SHARE):
    """Name -> text: `package` has the package's own copyright file, common-licenses/NAME a licence
    that this file refers to without its words. Throws an OSError for a package without one.

    Links are followed: several packages of one source often share one file. A few files refer to
    licences that Debian has not, which are left out.
    """
    own = (share / "doc" / package / "copyright").read_bytes()
    texts = {package: own}
    for name in re.findall(rb"/usr/share/(common-licenses/[A-Za-z0-9.+-]*[A-Za-z0-9])", own):
        common = share / name.decode()
        if common.is_file():
            texts[name.decode()] = common.read_bytes()
    return texts
