"""The documentation site, which `make docs` builds into build/site: Sphinx over Markdown (why: docs/decisions/site.md).

`pages` gathers the Markdown of the repository and says where a page stands in the navigation. `commands` writes a page for each
command from its parser, and `api` the page of the public classes. `notebooks` runs the notebooks on a virtual board. `links` checks
what was built. Begin with `build`, which calls them.
"""
