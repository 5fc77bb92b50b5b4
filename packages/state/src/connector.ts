import type { DescMessage, MessageInitShape } from '@bufbuild/protobuf';
import {
  type AwsIdentitySchema,
  type AzureIdentitySchema,
  type Connector,
  type ConnectorSchema,
  Dialect,
  type GoogleIdentitySchema,
  type OAuthClientSchema,
  OnDisconnect,
} from '@weighbridge/contracts';
import { compileModelPatterns, type ModelPrice, type Price, priceInRegion } from '@weighbridge/domain';
import { priceMessage, priceOfMessage } from './price.ts';
import { ROUTES, type RouteName } from './routes.ts';

/** How a proxy gets what it calls the upstream with, if that is computed. */
export type ConnectorIdentity =
  | ({ readonly kind: 'aws' } & Fields<typeof AwsIdentitySchema>)
  | ({ readonly kind: 'google' } & Fields<typeof GoogleIdentitySchema>)
  | ({ readonly kind: 'azure' } & Fields<typeof AzureIdentitySchema>)
  | ({ readonly kind: 'oauth'; readonly clientAuthentication: 'basic' | 'post' } & Omit<
      Fields<typeof OAuthClientSchema>,
      'basicAuthentication'
    >);

/** Without the marks of a message. */
type Fields<Schema extends DescMessage> = Omit<MessageInitShape<Schema>, '$typeName' | '$unknown'>;

/** The parts of a connector that proxies need: columns, and what the control plane reads or knows beside them. */
export interface ConnectorColumns {
  readonly id: string;
  readonly provider: string;
  readonly dialect: 'openai' | 'anthropic';
  readonly base_url: string;
  readonly priority: number;
  readonly weight: number;
  readonly models: readonly string[];
  /** The account's names of models, by model id. */
  readonly upstream_names: unknown;
  readonly max_parallel: number | null;
  readonly requests_per_minute: number | null;
  readonly tokens_per_minute: bigint | null;
  readonly connect_timeout_ms: number | null;
  readonly first_byte_timeout_ms: number | null;
  readonly chunk_timeout_ms: number | null;
  readonly on_disconnect: string | null;
  // What follows is not in the row.
  /** Empty if the upstream needs none. */
  readonly credential: string;
  readonly identity: ConnectorIdentity | undefined;
  readonly allowPrivateAddress: boolean;
  readonly routes: readonly RouteName[];
  /** Chat completions are not sent as they are, although the upstream serves them. */
  readonly translatesChat: boolean;
  readonly forwardHeaders: readonly string[];
  readonly negotiated: readonly {
    readonly modelId: string;
    readonly version: number;
    readonly price: Price;
  }[];
}

/** The connector as proxies get it. */
export function connectorMessage(row: ConnectorColumns): MessageInitShape<typeof ConnectorSchema> {
  return {
    id: row.id,
    provider: row.provider,
    dialect: row.dialect === 'anthropic' ? Dialect.ANTHROPIC : Dialect.OPENAI,
    baseUrl: row.base_url,
    credential: row.credential,
    identity: identityMessage(row.identity),
    priority: row.priority,
    models: [...row.models],
    upstreamNames: row.upstream_names as Record<string, string>,
    weight: row.weight,
    prices: Object.fromEntries(
      row.negotiated.map(({ modelId, version, price }) => [modelId, priceMessage(version, price)]),
    ),
    routes: row.routes.map((route) => ROUTES[route]),
    translatesChat: row.translatesChat,
    allowPrivateAddress: row.allowPrivateAddress,
    ...(row.max_parallel !== null && { maxParallel: row.max_parallel }),
    ...(row.requests_per_minute !== null && { requestsPerMinute: row.requests_per_minute }),
    ...(row.tokens_per_minute !== null && { tokensPerMinute: row.tokens_per_minute }),
    ...(row.connect_timeout_ms !== null && { connectTimeoutMs: row.connect_timeout_ms }),
    ...(row.first_byte_timeout_ms !== null && { firstByteTimeoutMs: row.first_byte_timeout_ms }),
    ...(row.chunk_timeout_ms !== null && { chunkTimeoutMs: row.chunk_timeout_ms }),
    onDisconnect: ON_DISCONNECT[row.on_disconnect ?? ''] ?? OnDisconnect.UNSPECIFIED,
    forwardHeaders: [...row.forwardHeaders],
  };
}

const ON_DISCONNECT: Readonly<Record<string, OnDisconnect>> = {
  cancel: OnDisconnect.CANCEL,
  drain: OnDisconnect.DRAIN,
};

function identityMessage(
  identity: ConnectorIdentity | undefined,
): NonNullable<MessageInitShape<typeof ConnectorSchema>['identity']> {
  switch (identity?.kind) {
    case undefined:
      return { case: undefined };
    case 'aws': {
      const { kind, ...value } = identity;
      return { case: kind, value };
    }
    case 'google': {
      const { kind, ...value } = identity;
      return { case: kind, value };
    }
    case 'azure': {
      const { kind, ...value } = identity;
      return { case: kind, value };
    }
    case 'oauth': {
      const { kind, clientAuthentication, ...client } = identity;
      return { case: kind, value: { ...client, basicAuthentication: clientAuthentication === 'basic' } };
    }
  }
}

/** A connector with its model patterns and negotiated prices prepared for routing. */
export interface RoutableConnector extends Connector {
  readonly serves: (modelId: string) => boolean;
  readonly negotiated: ReadonlyMap<string, ModelPrice>;
  /** The cloud's region, if it is known. */
  readonly region?: string;
  /** The full connector, if this is a copy for some of its models. */
  readonly whole?: RoutableConnector | undefined;
}

/** The inverse of `connectorMessage`. A price that is the same object as before is not prepared again. */
export function routableConnector(connector: Connector, before?: RoutableConnector): RoutableConnector {
  const region = regionOf(connector);
  const known = before?.region === region ? before : undefined;
  const negotiated = new Map<string, ModelPrice>();
  for (const [id, message] of Object.entries(connector.prices)) {
    const isSame = known?.prices[id] === message;
    const price = (isSame && known.negotiated.get(id)) || priceAtRegion(priceOfMessage(message), region);
    if (price) negotiated.set(id, price);
  }
  const { routes, translatesChat } = connector;
  return {
    ...connector,
    routes: translatesChat ? routes.filter((route) => route !== ROUTES.chat_completions) : routes,
    serves: compileModelPatterns(connector.models),
    negotiated,
    region,
    whole: undefined,
  };
}

function priceAtRegion(price: ModelPrice | undefined, region: string): ModelPrice | undefined {
  return price && region !== '' ? priceInRegion(price, region) : price;
}

/** Where a connector's requests go, if that is a region of a cloud. */
function regionOf({ identity }: Connector): string {
  if (identity.case === 'aws') return identity.value.region;
  return identity.case === 'google' ? identity.value.location : '';
}
