"""The configuration of Sphinx. `docs/build` calls it, with the folder of doxygen's XML in $DOXYGEN."""

import os

project = "tessera"
author = "the tessera developers"
project_copyright = author
html_title = "tessera"
html_theme = "furo"
html_show_sourcelink = False
html_static_path = ["style"]
html_css_files = ["tessera.css"]
root_doc = "index"

extensions = ["myst_parser", "breathe"]
source_suffix = {".md": "markdown"}
myst_heading_anchors = 4  # links to headings work as they do where the Markdown is read as it is
# Config files and program output are not to be taken for code of the page.
highlight_language = "none"
nitpicky = False

breathe_projects = {"tessera": os.environ.get("DOXYGEN", "")}
breathe_default_project = "tessera"
breathe_show_include = False  # it has no folder, and the heading above has
cpp_index_common_prefix = ["tessera::"]
