"""The pages for people: studies, arms, and forms to create and change studies.

Everything can be read without scripts; `static/app.js` draws plots and keeps pages up to date.
"""

import fastapi

from oddarms.server.pages import _forms, _study
from oddarms.server.pages._rendering import STATIC, error_page

__all__ = ["STATIC", "error_page", "router"]

router = fastapi.APIRouter(include_in_schema=False)
for _part in (_study, _forms):  # _forms takes any action of a study
    router.include_router(_part.router)
