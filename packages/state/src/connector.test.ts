import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { ConnectorSchema, Route } from '@weighbridge/contracts';
import { expect, it } from 'vitest';
import { type ConnectorColumns, connectorMessage, routableConnector } from './connector.ts';
import { canAnswer, servesRoute, translatedRoute } from './routes.ts';

const CHAT = { route: Route.CHAT_COMPLETIONS, isTranslated: true };

/** A connector as proxies have it. */
function received(columns: Partial<ConnectorColumns>) {
  const row: ConnectorColumns = {
    id: 'con_1',
    provider: 'anthropic',
    dialect: 'anthropic',
    base_url: 'https://api.anthropic.com/v1',
    priority: 0,
    weight: 1,
    models: [],
    upstream_names: {},
    max_parallel: null,
    requests_per_minute: null,
    tokens_per_minute: null,
    connect_timeout_ms: null,
    first_byte_timeout_ms: null,
    chunk_timeout_ms: null,
    on_disconnect: null,
    credential: '',
    identity: undefined,
    allowPrivateAddress: false,
    routes: ['messages', 'chat_completions'],
    translatesChat: false,
    forwardHeaders: [],
    negotiated: [],
    ...columns,
  };
  return fromBinary(
    ConnectorSchema,
    toBinary(ConnectorSchema, create(ConnectorSchema, connectorMessage(row))),
  );
}

it('a connector that translates chat completions is not asked for them, and names them to earlier proxies', () => {
  const message = received({ translatesChat: true });
  expect(message.routes).toContain(Route.CHAT_COMPLETIONS);
  const connector = routableConnector(message);
  expect(servesRoute(connector, Route.CHAT_COMPLETIONS)).toBe(false);
  expect([canAnswer(connector, CHAT), translatedRoute(connector)]).toEqual([true, Route.MESSAGES]);
});

it('one that does not is sent them as they are', () => {
  expect(servesRoute(routableConnector(received({})), Route.CHAT_COMPLETIONS)).toBe(true);
});
