#!/usr/bin/env python3
"""Writes the bill of materials of an installed bundle, share/tessera/sbom.json (CycloneDX 1.5), or
compares the bundle with it.

Listed are the programs and libraries that the bundle really has, with SHA-256, the licences of
dependencies.toml and the versions of the Debian packages that the same bytes come from; what is
compiled into the program; and what the program finds on its host. The same bundle gives the same
text: it has neither date nor number of its own. It needs no network.

The bundle gets the licence texts of these packages, share/tessera/licences/PACKAGE, and the bill
refers to them, beside each library or, for what is compiled in, beside its name. A library without
one is an error, except on a system without Debian's packages, where no text is found and a note says
so. Of NVIDIA the bundle has the static CUDA runtime, which the agreement of the CUDA toolkit lets
anyone distribute in a program (its Attachment A); that agreement comes from the toolkit, and a note says
where a toolkit has none.
"""

import argparse
import hashlib
import json
import re
import shutil
import sys
from pathlib import Path

from debian_packages import (licence_texts, package_of_headers, package_url, package_versions,
                             packages_of, sha256_of)  # fmt: skip

try:
    import tomllib
except ModuleNotFoundError:
    sys.exit("sbom.py: this needs Python 3.11 or newer")

DEPENDENCIES = Path(__file__).resolve().parents[2] / "dependencies.toml"
PLACE = "share/tessera/sbom.json"
LICENCES = "licences/"  # beside it
CUDA_LICENCE = "LicenseRef-NVIDIA-CUDA-EULA"
# In a toolkit: of NVIDIA's installers and packages, and of the wheels of its parts.
CUDA_TEXTS = ("EULA.txt", "dist-info/nvidia_cuda_runtime-*/licenses/License.txt",
              "../../nvidia_cuda_runtime-*/licenses/License.txt")  # fmt: skip
EPILOG = """
Exit codes: 0 done, and with --check nothing differs; 1 --check names what differs, else a licence
text is missing; 2 usage.
"""


def bundled_files(prefix):
    """The programs and libraries of a bundle: path in it -> SHA-256. Links are none."""
    return {str(path.relative_to(prefix)): sha256_of(path)
            for folder in ("bin", "lib") for path in sorted((prefix / folder).rglob("*"))
            if path.is_file() and not path.is_symlink()}  # fmt: skip


def library_name(path):
    """lib/libldap-2.5.so.0 -> libldap; "" for what is no shared library."""
    found = re.fullmatch(r"(lib.+?)(-[0-9.]+)?\.so(\.[0-9.]+)?", Path(path).name)
    return found[1] if found else ""


def upstream(version):
    """1:1.2.13.dfsg-1 -> 1.2.13.dfsg"""
    return version.partition(":")[2 if ":" in version else 0].rpartition("-")[0] or version


class LicenceTexts:
    """The licence texts of a bundle, taken from the packages that are asked for."""

    def __init__(self):
        self.texts = {}  # path below LICENCES -> text
        self.missing = []  # sentences

    def references(self, name, package):
        """CycloneDX's references to the texts of what comes from a package, "" for an unknown one."""
        texts = {}
        if not package:
            self.missing.append(f"{name}: no Debian package here has this file, so its licence text is not known")
        else:
            try:
                texts = licence_texts(package)
            except OSError as error:
                self.missing.append(f"{name}: its licence text: {error}")
        return self._kept(texts)

    def reference_to_cuda(self, toolkit):
        """The same for the agreement of a CUDA toolkit, which the folder `toolkit` has; nothing without one."""
        found = [path for text in CUDA_TEXTS for path in sorted(toolkit.glob(text))] if toolkit else []
        return self._kept({"NVIDIA-CUDA-EULA": found[0].read_bytes()}) if found else []

    def _kept(self, texts):
        self.texts |= texts
        return [{"type": "license", "url": LICENCES + path, "hashes": hashes(hashlib.sha256(text).hexdigest())}
                for path, text in texts.items()]  # fmt: skip


def hashes(digest):
    return [{"alg": "SHA-256", "content": digest}]


def file_component(path, files, references=()):
    made = {"type": "file", "bom-ref": path, "name": path, "hashes": hashes(files[path])}
    if references:
        made["externalReferences"] = references
    return made


def component(name, licence, version="", linkage="", purl="", scope="required", parts=(), references=()):
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
    if references:
        made["externalReferences"] = references
    if parts:
        made["components"] = parts
    return made


def bill_of_materials(files, dependencies, version, cuda, toolkit, licences):
    """The document. `files` are those of bundled_files(); `cuda` is the version of nvcc, "" for a
    bundle without the CUDA half, and `toolkit` its folder or None. `licences` gets the texts to which
    it refers."""
    tables = {name: table for name, table in dependencies.items() if name != "along"}
    libraries = {path: library_name(path) for path in files if library_name(path)}
    packages = packages_of({path: files[path] for path in libraries})
    compiled_in = {name: package_of_headers(table["headers"][0]) for name, table in tables.items()
                   if table.get("linkage") == "headers" and table.get("debian")}  # fmt: skip
    versions = package_versions({*packages.values(), *compiled_in.values()})
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
                                    package_url(package, found) if found else "",
                                    parts=[file_component(path, files,
                                                          licences.references(path, packages.get(path, "")))
                                           for path in paths]))  # fmt: skip
    for name, table in sorted(tables.items()):
        linkage = table.get("linkage", "shared")
        of_cuda = not table.get("debian") and linkage != "host"
        if linkage == "shared" or (of_cuda and not cuda):
            continue
        package = compiled_in.get(name, "")
        found = versions.get(package, "")
        # Versions of the toolkit's parts are not those of the compiler.
        known = cuda if name == "CUDA runtime" else upstream(found)
        references = licences.references(name, package) if found else []
        if linkage == "static" and table["licence"] == CUDA_LICENCE:
            references = licences.reference_to_cuda(toolkit)
        components.append(component(name, table["licence"], known, linkage,
                                    package_url(package, found) if found else "",
                                    scope="optional" if linkage == "opened" else "required",
                                    references=references))  # fmt: skip
    own = [path for path in files if path not in libraries]
    return {"$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json", "bomFormat": "CycloneDX",
            "specVersion": "1.5", "version": 1,
            "metadata": {"component": {"type": "application", "bom-ref": "tessera", "name": "tessera",
                                       "version": version, "licenses": [{"expression": "Apache-2.0"}],
                                       "components": [file_component(path, files) for path in own]}},
            "components": components,
            "dependencies": [{"ref": "tessera", "dependsOn": [c["bom-ref"] for c in components]}]}  # fmt: skip


def listed_files(document):
    """Path -> SHA-256 of every file that a bill of materials lists."""
    parents = [document["metadata"]["component"], *document["components"]]
    return {file["name"]: file["hashes"][0]["content"]
            for parent in parents for file in parent.get("components", [])}  # fmt: skip


def licence_differences(place, document):
    """Sentences on the licence texts that a bill of materials in `place` refers to and lacks."""
    found = []
    for parent in document["components"]:
        for part in [parent, *parent.get("components", [])]:
            references = part.get("externalReferences", [])
            if part["type"] == "file" and not references:
                found.append(f"{part['name']} has no licence text")
            for reference in references:
                path, [digest] = place.parent / reference["url"], reference["hashes"]
                text = f"{reference['url']}, a licence text of {part['name']},"
                if not path.is_file():
                    found.append(f"{text} is missing")
                elif sha256_of(path) != digest["content"]:
                    found.append(f"{text} has the SHA-256 {sha256_of(path)}, listed is {digest['content']}")
    return found


def differences(here, document):
    """Sentences, one for each thing in which the files of a bundle and its bill of materials differ."""
    listed = listed_files(document)
    found = [f"{path} is not listed" for path in here.keys() - listed.keys()]
    found += [f"{path} is listed and missing" for path in listed.keys() - here.keys()]
    found += [f"{path} has the SHA-256 {here[path]}, listed is {listed[path]}"
              for path in here.keys() & listed.keys() if here[path] != listed[path]]  # fmt: skip
    return sorted(found + [f"{library['name']}: dependencies.toml has no licence of it"
                           for library in document["components"] if "licenses" not in library])  # fmt: skip


def write_bundle(place, document, texts):
    """Writes a bill of materials with the licence texts beside it."""
    place.parent.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        path = place.parent / LICENCES / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)
    place.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(prog="sbom.py", description=__doc__, epilog=EPILOG,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("prefix", type=Path, help="folder of the bundle")
    parser.add_argument("--version", default="", help="of tessera")
    parser.add_argument("--cuda", default="", help="version of nvcc, where the CUDA half is built")
    parser.add_argument("--toolkit", type=Path, help="folder of the CUDA toolkit, which has NVIDIA's licence text")
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
        wrong = licence_differences(place, document)
    else:
        dependencies = tomllib.loads(DEPENDENCIES.read_text(encoding="utf-8"))
        licences = LicenceTexts()
        document = bill_of_materials(files, dependencies, options.version, options.cuda, options.toolkit, licences)
        write_bundle(place, document, licences.texts)
        wrong = licences.missing
        if options.cuda and "NVIDIA-CUDA-EULA" not in licences.texts:
            print(f"{place}: the CUDA toolkit {options.toolkit or ''} has no licence text, so the bundle has none of "
                  "NVIDIA's", file=sys.stderr)  # fmt: skip
        if wrong and not shutil.which("dpkg-query"):
            print(f"{place}: this system has no dpkg-query, so the bundle has no licence texts; add those of "
                  "the libraries that it carries", file=sys.stderr)  # fmt: skip
            wrong = []
    found = differences(files, document) + wrong
    for line in found:
        print(f"{place}: {line}", file=sys.stderr)
    if options.check:
        print(f"{len(listed_files(document))} files, {len(document['components'])} libraries, {len(found)} "
              f"differ{'s' if len(found) == 1 else ''}")  # fmt: skip
    return 1 if wrong or (found and options.check) else 0


if __name__ == "__main__":
    sys.exit(main())
