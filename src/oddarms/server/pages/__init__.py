"""The pages that people look at: studies, arms, and forms to make and change them.

Everything can be read without scripts; `static/app.js` draws and keeps it up to date.
"""

import fastapi

from oddarms.server.pages import (
    _api_page,
    _arm_page,
    _changing,
    _data,
    _signing_in,
    _studies_page,
    _study_page,
)
from oddarms.server.pages._assets import Assets
from oddarms.server.pages._rendering import error_page, prepare

__all__ = ["Assets", "error_page", "prepare", "router"]

router = fastapi.APIRouter(include_in_schema=False)
for _part in (_signing_in, _api_page, _studies_page, _study_page, _arm_page, _data, _changing):
    router.include_router(_part.router)
