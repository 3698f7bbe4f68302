"""The documentation site: ``make docs`` builds it into build/site.

Nothing is loaded from other hosts: formulas are MathML, the search runs in the browser. Tutorials
are executed as they are built, unless ODDARMS_DOCS_EXECUTE is ``off``.
"""

import gc
import os
import sys
import tempfile
from pathlib import Path

gc.disable()  # what a build makes lives to its end; looking for garbage takes a quarter of the time
HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_extensions"))
# Commands in tutorials are those beside this Python.
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
os.environ.update(COLUMNS="80", PYDEVD_DISABLE_FILE_VALIDATION="1", NO_COLOR="1")
# Tutorials do not depend on a profile of IPython in the home directory; kernels say errors only.
_profiles = tempfile.TemporaryDirectory(prefix="oddarms-docs-")
_kernel_config = Path(_profiles.name, "profile_default", "ipython_kernel_config.py")
_kernel_config.parent.mkdir()
_kernel_config.write_text("c.IPKernelApp.log_level = 40\n", encoding="utf-8")
os.environ["IPYTHONDIR"] = _profiles.name

import oddarms  # noqa: E402 - after the paths

project = "oddarms"
author = "the oddarms contributors"
project_copyright = author
release = version = oddarms.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "mathml",
    "public",
    "generated",
    "root_pages",
]
exclude_patterns = ["_build", "_extensions"]
default_role = "py:obj"
suppress_warnings = ["misc.highlighting_failure", "ref.python"]

myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
myst_dmath_double_inline = True
nb_execution_mode = os.environ.get("ODDARMS_DOCS_EXECUTE", "force")
nb_execution_in_temp = True
nb_execution_show_tb = True
nb_execution_timeout = 1200
nb_merge_streams = True

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_typehints_format = "short"
autodoc_class_signature = "mixed"
autosummary_generate = False
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False

html_theme = "pydata_sphinx_theme"
html_title = "oddarms"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_search_scorer = str(HERE / "_static" / "scorer.js")
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "oddarms"},
    "header_links_before_dropdown": 6,
    "navigation_with_keys": False,
    "navbar_end": ["theme-switcher"],
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True
