import { type Static, Type } from 'typebox';
import { PageQuery } from '../../shared/paging.ts';
import {
  DateTime,
  MAX_PER_MINUTE,
  Nullable,
  OneOf,
  QueryBoolean,
  Strict,
  TextByName,
} from '../../shared/schemas.ts';
import { ConnectorAuth } from './connectorAuth.schemas.ts';

const Dialect = OneOf(['openai', 'anthropic'], { title: 'Dialect' });
const ModelPatterns = Type.Array(Type.String({ minLength: 1, maxLength: 256 }), {
  maxItems: 200,
  description:
    'The models of its provider that it serves: anchored patterns of model ids; `*` matches any characters. Empty: all models.',
});
const UpstreamNames = TextByName(
  { minLength: 1, maxLength: 256 },
  {
    title: 'UpstreamNames',
    maxProperties: 500,
    description: 'The name of a model at this account, by model id.',
  },
);
const Priority = Type.Integer({
  minimum: -1_000_000,
  maximum: 1_000_000,
  description: 'Connectors with a lower number are tried first.',
});
const Weight = Type.Integer({
  minimum: 1,
  maximum: 1_000_000,
  description: 'The share of the requests among connectors of the same priority.',
});
const Timeout = Nullable(
  Type.Integer({ minimum: 1, maximum: 3_600_000, description: "Null: the proxy's own setting applies." }),
);
const OnDisconnect = Nullable(
  OneOf(['cancel', 'drain'], {
    title: 'OnDisconnect',
    description:
      'What to do with a stream whose client disconnected: cancel it, if the vendor then stops billing, or read it to its end. Null: what is known of the provider.',
  }),
);
const Chat = OneOf(['native', 'compatible'], {
  title: 'ConnectorChat',
  description:
    "Which API gets chat completions: `native`, the vendor's own, to which they are translated; `compatible`, the vendor's OpenAI-compatible one, which lacks some of it. Only anthropic and gemini have both.",
});
const ForwardHeaders = Type.Array(Type.String({ minLength: 1, maxLength: 100 }), {
  maxItems: 50,
  description:
    "Headers of clients that this account gets besides those of its dialect's SDKs: names, or patterns such as `x-acme-*`. Never credentials, identities or headers of the connection.",
});
const RequestsPerMinute = Nullable(
  Type.Integer({
    minimum: 1,
    maximum: MAX_PER_MINUTE,
    description:
      'What the vendor grants the account: the requests that all proxies together send it in any 60 seconds. Null: no limit.',
  }),
);
const TokensPerMinute = Nullable(
  Type.Integer({
    minimum: 1,
    maximum: MAX_PER_MINUTE,
    description: 'The same in tokens, of input and output together. Null: no limit.',
  }),
);
const MaxParallel = Nullable(Type.Integer({ minimum: 1, maximum: 2_147_483_647 }));

/** A connector. It shows where its credential is, never the credential itself. */
export const Connector = Type.Object(
  {
    id: Type.String(),
    name: Type.String(),
    provider: Type.String(),
    dialect: Dialect,
    base_url: Type.String(),
    auth: ConnectorAuth,
    credential_ref: Nullable(Type.String()),
    credential_sealed: Type.Boolean({ description: 'Whether a sealed credential is stored here.' }),
    credential_bound: Nullable(
      Type.Boolean({
        description:
          'Whether the deployment limits the hosts that the referenced credential may go to; null without a reference.',
      }),
    ),
    credential_hosts: Nullable(
      Type.Array(Type.String(), {
        description:
          'The hosts that the deployment lets the referenced credential go to, such as api.groq.com or *.models.local; null without a reference, or if any host is allowed.',
      }),
    ),
    usable: Type.Boolean({ description: 'Whether requests can go through it when it is enabled.' }),
    unusable_reason: Nullable(Type.String()),
    enabled: Type.Boolean(),
    priority: Priority,
    weight: Weight,
    max_parallel: MaxParallel,
    requests_per_minute: RequestsPerMinute,
    tokens_per_minute: TokensPerMinute,
    connect_timeout_ms: Timeout,
    first_byte_timeout_ms: Timeout,
    chunk_timeout_ms: Timeout,
    on_disconnect: OnDisconnect,
    chat: Chat,
    forward_headers: ForwardHeaders,
    models: ModelPatterns,
    upstream_names: UpstreamNames,
    origin: OneOf(['environment', 'operator'], { title: 'ConnectorOrigin' }),
    created_at: DateTime,
    updated_at: DateTime,
  },
  { title: 'Connector' },
);
export type Connector = Static<typeof Connector>;

const settings = {
  name: Type.String(),
  dialect: Type.Optional(Dialect),
  base_url: Type.Optional(Type.String({ minLength: 1, maxLength: 2_048 })),
  credential_ref: Type.Optional(
    Nullable(
      Type.String({ maxLength: 1_024, description: 'Where the credential is: env:NAME or file:/path.' }),
    ),
  ),
  credential: Type.Optional(
    Nullable(
      Type.String({
        maxLength: 10_000,
        description: 'The credential itself. It is stored sealed and never shown.',
      }),
    ),
  ),
  auth: Type.Optional(ConnectorAuth),
  enabled: Type.Optional(Type.Boolean()),
  priority: Type.Optional(Priority),
  weight: Type.Optional(Weight),
  max_parallel: Type.Optional(MaxParallel),
  requests_per_minute: Type.Optional(RequestsPerMinute),
  tokens_per_minute: Type.Optional(TokensPerMinute),
  connect_timeout_ms: Type.Optional(Timeout),
  first_byte_timeout_ms: Type.Optional(Timeout),
  chunk_timeout_ms: Type.Optional(Timeout),
  on_disconnect: Type.Optional(OnDisconnect),
  chat: Type.Optional(Chat),
  forward_headers: Type.Optional(ForwardHeaders),
  models: Type.Optional(ModelPatterns),
  upstream_names: Type.Optional(UpstreamNames),
};

export const NewConnector = Strict(
  { provider: Type.String({ minLength: 1, maxLength: 100 }), ...settings },
  { title: 'NewConnector' },
);
export type NewConnector = Static<typeof NewConnector>;

export const ConnectorChanges = Strict(
  { ...settings, name: Type.Optional(Type.String()) },
  { title: 'ConnectorChanges' },
);
export type ConnectorChanges = Static<typeof ConnectorChanges>;

export const ConnectorQuery = Strict({
  ...PageQuery,
  provider: Type.Optional(Type.String({ minLength: 1, maxLength: 100 })),
  enabled: Type.Optional(QueryBoolean('Whether it is enabled.')),
  name_contains: Type.Optional(Type.String({ minLength: 1, maxLength: 100 })),
});
export type ConnectorQuery = Static<typeof ConnectorQuery>;
