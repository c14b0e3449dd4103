"""What an n8n server says that its API accepts, as far as connections read it."""

from __future__ import annotations

from collections.abc import Sequence


def without_publish_if_active(text: str) -> str:
    """Returns the description of an older API, whose updates go live."""
    return text.replace("publishIfActive", "otherParameter")


N8N_FIELDS = ("name", "nodes", "connections", "settings")
N8N_NODE_FIELDS = (
    "id",
    "name",
    "type",
    "typeVersion",
    "position",
    "parameters",
    "credentials",
    "disabled",
    "notes",
    "notesInFlow",
    "webhookId",
    "onError",
    "continueOnFail",
    "retryOnFail",
    "maxTries",
    "waitBetweenTries",
    "alwaysOutputData",
    "executeOnce",
)
N8N_OTHER_FIELDS = ("name", "connections", "settings", "pinData", "description")


def _properties(names: Sequence[str]) -> str:
    return "".join(f"        {name}: {{}}\n" for name in names)


N8N_OPENAPI = f"""openapi: 3.0.0
info:
  title: n8n Public API
paths:
  /workflows:
    get:
      operationId: getWorkflows
  '/workflows/{{workflowId}}':
    get:
      operationId: getWorkflow
    put:
      operationId: updateWorkflow
      description: 'Update a workflow: `publishIfActive`.'
      parameters:
        - schema:
            type: string
          name: workflowId
          in: path
        - schema:
            type: string
          name: publishIfActive
          in: query
      requestBody:
        content:
          application/json:
            schema:
              $ref: '#/components/schemas/workflow'
components:
  schemas:
    node:
      type: object
      properties:
{_properties(N8N_NODE_FIELDS)}        createdAt:
          readOnly: true
    workflow:
      type: object
      properties:
        id:
          readOnly: true
        nodes:
          type: array
          items:
            $ref: '#/components/schemas/node'
{_properties(N8N_OTHER_FIELDS)}"""
"""What an n8n server says of its API, as far as it is read."""
