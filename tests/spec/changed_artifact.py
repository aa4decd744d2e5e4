"""Changes of a saved .cnna file, for the tests of what is read and what is refused."""

import json
import zipfile

from cnna.spec import artifact as files


def repack(path, change, digest=True):
    """Rewrites a file's members through `change(dict)`; the manifest's digest follows unless told otherwise."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    if digest:
        members[files.DIGEST] = files.digest_of(members[files.MANIFEST]).encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def edit(**changes):
    """A change of manifest entries for `repack`."""

    def change(members):
        members[files.MANIFEST] = json.dumps({**json.loads(members[files.MANIFEST]), **changes}).encode()

    return change


def of_program(**changes):
    """A change of entries of the program's piece, for `repack`."""

    def change(members):
        manifest = json.loads(members[files.MANIFEST])
        manifest["pieces"][0] |= changes
        members[files.MANIFEST] = json.dumps(manifest).encode()

    return change
