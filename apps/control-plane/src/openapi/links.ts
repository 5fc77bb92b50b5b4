import { EXAMPLE_MODEL } from './requestExamples.ts';
import { type OpenApiDocument, type Operation, operations, type Response } from './types.ts';

interface Source {
  readonly operationId: string;
  readonly status: number;
  /** A runtime expression (https://spec.openapis.org/oas/v3.1.1#runtime-expressions). */
  readonly value: string;
  /** Of a second path parameter. */
  readonly others?: Readonly<Record<string, string>>;
}

const created = (operationId: string, value = '$response.body#/id'): Source => ({
  operationId,
  status: 201,
  value,
});
const read = (operationId: string, value: string): Source => ({ operationId, status: 200, value });
const listed = (operationId: string, field = 'id'): Source =>
  read(operationId, `$response.body#/data/0/${field}`);

/** By path parameter: the responses that contain a value for it. */
const SOURCES: Readonly<Record<string, readonly Source[]>> = {
  key_id: [created('createKey'), listed('listKeys')],
  policy_id: [created('createPolicy'), listed('listPolicies')],
  override_id: [created('createOverride'), listed('listOverrides')],
  team_id: [created('createTeam'), listed('listTeams')],
  principal_id: [read('putPrincipal', '$response.body#/id'), listed('listPrincipals')],
  profile_id: [created('createProfile'), listed('listProfiles')],
  alias_id: [created('createAlias'), listed('listAliases')],
  connector_id: [created('createConnector'), listed('listConnectors')],
  proxy_id: [listed('listProxies')],
  quarantine_id: [listed('listQuarantine')],
  request_id: [
    read('createChatCompletion', '$response.header.x-request-id'),
    read('createMessage', '$response.header.x-request-id'),
    listed('listRequests', 'request_id'),
  ],
  response_id: [read('createResponse', '$response.body#/id')],
  webhook_id: [created('createWebhook'), listed('listWebhooks')],
  change_id: [listed('listFeedChanges')],
  model: [
    created('putCatalogModel', '$response.body#/model'),
    read('putCatalogModel', '$response.body#/model'),
    listed('listCatalogModels', 'model'),
  ],
};
/** The names in Gemini's list have a prefix, so links name the model that a new service has. */
const GEMINI_MODEL = { model: [read('listGeminiModels', 'mock/echo')] };
/** Where a parameter of this name means something else. */
const SOURCES_OF: Readonly<Record<string, Readonly<Record<string, readonly Source[]>>>> = {
  getInferenceModel: { model: [listed('listInferenceModels')] },
  getGeminiModel: GEMINI_MODEL,
  generateContent: GEMINI_MODEL,
  streamGenerateContent: GEMINI_MODEL,
  countContentTokens: GEMINI_MODEL,
  embedContent: GEMINI_MODEL,
  batchEmbedContents: GEMINI_MODEL,
  putTeamMember: {
    team_id: [{ ...created('createTeam'), others: { principal_id: 'ada@example.com' } }],
  },
  deleteTeamMember: {
    team_id: [
      {
        ...read('putTeamMember', '$response.body#/team_id'),
        others: { principal_id: '$response.body#/principal_id' },
      },
    ],
  },
  putConnectorPrice: {
    connector_id: [
      // The model of the examples: its provider is that of the connector.
      { ...created('createConnector'), others: { model: EXAMPLE_MODEL } },
      // The one connector that a new service has.
      { ...listed('listConnectors'), others: { model: 'mock/echo' } },
    ],
  },
  redeliverWebhook: {
    webhook_id: [
      {
        ...read('testWebhook', '$request.path.webhook_id'),
        others: { delivery_id: '$response.body#/delivery_id' },
      },
      {
        ...read('listWebhookDeliveries', '$request.path.webhook_id'),
        others: { delivery_id: '$response.body#/data/0/id' },
      },
    ],
  },
  deleteConnectorPrice: {
    connector_id: [
      {
        ...read('putConnectorPrice', '$request.path.connector_id'),
        others: { model: '$response.body#/model' },
      },
      {
        ...read('listConnectorPrices', '$request.path.connector_id'),
        others: { model: '$response.body#/data/0/model' },
      },
    ],
  },
};

/** Adds to each response the operations that take a value out of it, so that every operation with an id can be reached. */
export function addLinks(document: OpenApiDocument): void {
  const all = operations(document);
  const byId = new Map(all.map(([, , operation]) => [operation.operationId, operation]));
  for (const [, , target] of all) {
    const names = (target.parameters ?? []).filter((one) => one.in === 'path').map(({ name }) => name);
    const [name] = names;
    if (name === undefined) continue;
    for (const source of SOURCES_OF[target.operationId]?.[name] ?? SOURCES[name] ?? []) {
      const parameters = { [name]: source.value, ...source.others };
      addLink(byId.get(source.operationId), source.status, target, { parameters });
    }
  }
  const override = byId.get('createOverride');
  if (override) {
    const requestBody = { policy_id: '$response.body#/id' };
    addLink(byId.get('createPolicy'), 201, override, { requestBody });
  }
  const feedback = byId.get('giveFeedback');
  for (const { operationId, status, value } of SOURCES.request_id ?? []) {
    if (feedback && value.startsWith('$response.header')) {
      addLink(byId.get(operationId), status, feedback, { requestBody: { request_id: value, score: 1 } });
    }
  }
}

function addLink(source: Operation | undefined, status: number, target: Operation, link: object): void {
  const response = source?.responses[status] as Response | undefined;
  if (!response)
    throw new Error(`${source?.operationId ?? 'an operation'} has no response ${status} to link from`);
  response.links = {
    ...response.links,
    [target.operationId]: { operationId: target.operationId, description: target.summary, ...link },
  };
}
