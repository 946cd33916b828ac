#!/usr/bin/env python3
"""Writes the bill of materials of an installed bundle, share/tessera/sbom.json (CycloneDX 1.5), or
compares the bundle with it.

Listed are the programs and libraries that the bundle really has, with SHA-256, the licences of
dependencies.toml and the versions of the Debian packages that the same bytes come from; what is
compiled into the program; and what the program finds on its host. The same bundle gives the same
text: it has neither date nor number of its own. It needs no network.
"""

import argparse
import hashlib
import json
import platform
import re
import subprocess
import sys
import urllib.parse
from pathlib import Path

try:
    import tomllib
except ModuleNotFoundError:
    sys.exit("sbom.py: this needs Python 3.11 or newer")

DEPENDENCIES = Path(__file__).resolve().parents[2] / "dependencies.toml"
PLACE = "share/tessera/sbom.json"
EPILOG = """
Exit codes: 0 done, and with --check nothing differs; 1 --check names what differs; 2 usage.
"""


def sha256_of(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def bundled_files(prefix):
    """The programs and libraries of a bundle: path in it -> SHA-256. Links are none."""
    return {str(path.relative_to(prefix)): sha256_of(path)
            for folder in ("bin", "lib") for path in sorted((prefix / folder).rglob("*"))
            if path.is_file() and not path.is_symlink()}  # fmt: skip


def library_name(path):
    """lib/libldap-2.5.so.0 -> libldap; "" for what is no shared library."""
    found = re.fullmatch(r"(lib.+?)(-[0-9.]+)?\.so(\.[0-9.]+)?", Path(path).name)
    return found[1] if found else ""


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


def deb_purl(package, version):
    """The package URL of a Debian package of this system."""
    release = dict(line.split("=", 1) for line in Path("/etc/os-release").read_text().splitlines()
                   if "=" in line)  # fmt: skip
    system = release.get("ID", "debian").strip('"')
    architecture = output_of("dpkg", "--print-architecture").strip() or platform.machine()
    return f"pkg:deb/{system}/{package}@{urllib.parse.quote(version, safe='')}?arch={architecture}"


def upstream(version):
    """1:1.2.13.dfsg-1 -> 1.2.13.dfsg"""
    return version.partition(":")[2 if ":" in version else 0].rpartition("-")[0] or version


def file_components(paths, files):
    return [{"type": "file", "bom-ref": path, "name": path,
             "hashes": [{"alg": "SHA-256", "content": files[path]}]} for path in paths]  # fmt: skip


def component(name, licence, version="", linkage="", purl="", scope="required", parts=()):
    """A library as CycloneDX has it; what is not known is left out."""
    made = {"type": "library", "bom-ref": f"library:{name}", "name": name, "scope": scope}
    if version:
        made["version"] = version
    if licence:
        made["licenses"] = [{"expression": licence}]
    if purl:
        made["purl"] = purl
    if linkage:
        made["properties"] = [{"name": "tessera:linkage", "value": linkage}]
    if parts:
        made["components"] = list(parts)
    return made


def bill_of_materials(files, dependencies, version, cuda):
    """The document. `files` are those of bundled_files(); `cuda` is the version of nvcc, "" for a
    bundle without the CUDA half."""
    tables = {name: table for name, table in dependencies.items() if name != "along"}
    libraries = {path: library_name(path) for path in files if library_name(path)}
    packages = packages_of({path: files[path] for path in libraries})
    versions = package_versions({*packages.values(),
                                 *(p for table in tables.values() for p in table.get("debian", []))})  # fmt: skip
    owner = {library: name for name, table in tables.items() for library in table.get("libraries", [])}

    owned = {}  # name of a component -> its bundled libraries
    for path, library in libraries.items():
        owned.setdefault(owner.get(library, library), []).append(path)
    components = []
    for name, paths in sorted(owned.items()):
        package = packages.get(paths[0], "")
        found = versions.get(package, "")
        licence = tables[name]["licence"] if name in tables else dependencies["along"].get(name, "")
        components.append(component(name, licence, upstream(found), "shared",
                                    deb_purl(package, found) if found else "",
                                    parts=file_components(paths, files)))  # fmt: skip
    for name, table in sorted(tables.items()):
        linkage = table.get("linkage", "shared")
        of_cuda = not table.get("debian") and linkage != "host"
        if linkage == "shared" or (of_cuda and not cuda):
            continue
        package = table.get("debian", [""])[0]
        found = versions.get(package, "")
        # Versions of the toolkit's parts are not those of the compiler.
        known = cuda if name == "CUDA runtime" else upstream(found)
        components.append(component(name, table["licence"], known if linkage in ("headers", "static") else "",
                                    linkage, deb_purl(package, found) if found else "",
                                    scope="optional" if linkage == "opened" else "required"))  # fmt: skip
    own = [path for path in files if path not in libraries]
    return {"$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json", "bomFormat": "CycloneDX",
            "specVersion": "1.5", "version": 1,
            "metadata": {"component": {"type": "application", "bom-ref": "tessera", "name": "tessera",
                                       "version": version, "licenses": [{"expression": "Apache-2.0"}],
                                       "components": file_components(own, files)}},
            "components": components,
            "dependencies": [{"ref": "tessera", "dependsOn": [c["bom-ref"] for c in components]}]}  # fmt: skip


def listed_files(document):
    """Path -> SHA-256 of every file that a bill of materials lists."""
    parents = [document["metadata"]["component"], *document["components"]]
    return {file["name"]: file["hashes"][0]["content"]
            for parent in parents for file in parent.get("components", [])}  # fmt: skip


def differences(here, document):
    """Sentences, one for each thing in which the files of a bundle and its bill of materials differ."""
    listed = listed_files(document)
    found = [f"{path} is not listed" for path in here.keys() - listed.keys()]
    found += [f"{path} is listed and missing" for path in listed.keys() - here.keys()]
    found += [f"{path} has the SHA-256 {here[path]}, listed is {listed[path]}"
              for path in here.keys() & listed.keys() if here[path] != listed[path]]  # fmt: skip
    return sorted(found + [f"{library['name']}: dependencies.toml has no licence of it"
                           for library in document["components"] if "licenses" not in library])  # fmt: skip


def main():
    parser = argparse.ArgumentParser(prog="sbom.py", description=__doc__, epilog=EPILOG,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("prefix", type=Path, help="folder of the bundle")
    parser.add_argument("--version", default="", help="of tessera")
    parser.add_argument("--cuda", default="", help="version of nvcc, where the CUDA half is built")
    parser.add_argument("--files", type=Path, help="a list of the bundle's files, a path in it a line "
                        "(default: all of bin and lib)")  # fmt: skip
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    options = parser.parse_args()

    place = options.prefix / PLACE
    files = bundled_files(options.prefix)
    if options.files:
        chosen = set(options.files.read_text(encoding="utf-8").splitlines())
        files = {path: digest for path, digest in files.items() if path in chosen}
    if options.check:
        try:
            document = json.loads(place.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            sys.exit(f"sbom.py: {place}: {error}")
    else:
        dependencies = tomllib.loads(DEPENDENCIES.read_text(encoding="utf-8"))
        document = bill_of_materials(files, dependencies, options.version, options.cuda)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    found = differences(files, document)
    for line in found:
        print(f"{place}: {line}", file=sys.stderr)
    if options.check:
        print(f"{len(listed_files(document))} files, {len(document['components'])} libraries, {len(found)} "
              f"differ{'s' if len(found) == 1 else ''}")  # fmt: skip
    return 1 if found and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
