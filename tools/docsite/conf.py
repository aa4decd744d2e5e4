"""Sphinx's configuration of the site; its names are Sphinx's."""

from importlib.metadata import version as installed

project = "cnna"
author = "cnna contributors"
copyright = "cnna contributors"
version = release = installed("cnna")

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.viewcode", "sphinx_copybutton"]
default_role = "literal"  # docstrings put code between single backticks
highlight_language = "none"  # of blocks that name no language
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100
add_module_names = False
toc_object_entries_show_parents = "hide"
smartquotes = False  # "emulator" is to be typed as it stands
myst_heading_anchors = 4
nb_execution_mode = "off"  # docsite.notebooks has run them
nb_merge_streams = True

html_theme = "furo"
html_title = f"cnna {version}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "source_repository": "https://github.com/cnna/cnna/",
    "source_branch": "main",
    "top_of_page_buttons": [],
}
