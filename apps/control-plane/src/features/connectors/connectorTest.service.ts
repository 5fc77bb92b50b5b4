import { type Static, Type } from 'typebox';
import { Nullable, OneOf } from '../../shared/schemas.ts';
import { type ProbeResult, probe } from './connectorProbe.ts';
import { type ConnectorDeps, credentialOf, existingConnector, mayBePrivate } from './connectors.service.ts';
import type { ProxyFinding, ProxyTests, TestedByProxies } from './proxyTests.ts';

const found = {
  ok: Type.Boolean(),
  status: Nullable(Type.Integer({ description: "The upstream's status; null if it sent no response." })),
  latency_ms: Type.Integer(),
  message: Type.String(),
  identity: Nullable(
    Type.String({ description: 'What the connector was called with, if it is computed; never a secret.' }),
  ),
  region: Nullable(Type.String({ description: 'The region of a cloud, if it is known.' })),
};

export const ConnectorTest = Type.Object(
  {
    ...found,
    models: Type.Array(Type.String(), {
      description: 'What the account calls the models that it lists: the first of them.',
    }),
    has_more_models: Type.Boolean(),
    tested_by: OneOf(['control_plane', 'proxy'], {
      title: 'ConnectorTester',
      description: 'Proxies test, with their own identity. Without any, the control plane tests what it can.',
    }),
    proxies: Type.Array(
      Type.Object(
        { proxy_id: Type.String(), name: Type.String(), ...found },
        { title: 'ProxyConnectorTest' },
      ),
      { description: 'What each proxy that answered found. The fields above are of the first that failed.' },
    ),
  },
  { title: 'ConnectorTest' },
);
export type ConnectorTest = Static<typeof ConnectorTest>;

export type ConnectorTestDeps = ConnectorDeps & {
  /** Undefined: this process serves no proxies. */
  readonly proxyTests?: Pick<ProxyTests, 'run'> | undefined;
};

const TEST_TIMEOUT_MS = 10_000;

/** Tests a connector's credential or identity at the upstream. */
export async function testConnector(deps: ConnectorTestDeps, id: string): Promise<ConnectorTest> {
  const row = await existingConnector(deps.db, id);
  const credential = await credentialOf(deps, row);
  if ('unusable' in credential) {
    return byControlPlane({ ok: false, status: null, latency_ms: 0, message: credential.unusable });
  }
  const tested = await deps.proxyTests?.run(id);
  if (tested && tested.findings.length + tested.silent.length > 0) return byProxies(tested);
  const result = await probe({
    baseUrl: row.base_url,
    dialect: row.dialect,
    credential: credential.value,
    identity: credential.identity,
    allowPrivateAddress: mayBePrivate(deps, row),
    timeoutMs: TEST_TIMEOUT_MS,
  });
  const message = `${result.message} No proxy is connected: the control plane tested it.`;
  return byControlPlane({ ...result, message });
}

function byControlPlane({ ok, status, latency_ms, message }: ProbeResult): ConnectorTest {
  return {
    ok,
    status,
    latency_ms,
    message,
    identity: null,
    region: null,
    models: [],
    has_more_models: false,
    tested_by: 'control_plane',
    proxies: [],
  };
}

function byProxies({ findings, silent }: TestedByProxies): ConnectorTest {
  const [first] = [...findings].sort((one, other) => Number(one.ok) - Number(other.ok));
  const missing =
    silent.length === 0
      ? ''
      : `No answer within ${TEST_TIMEOUT_MS / 1_000} s from ${silent.join(', ')}: a proxy of an earlier release can't test.`;
  const shown = first ? shownFinding(first) : UNANSWERED;
  const message = [shown.message, missing].filter((text) => text !== '').join(' ');
  return {
    ...shown,
    ok: shown.ok && silent.length === 0,
    message,
    models: [...(first?.models ?? [])],
    has_more_models: first?.hasMoreModels ?? false,
    tested_by: 'proxy',
    proxies: findings.map((finding) => ({
      proxy_id: finding.proxy.id,
      name: finding.proxy.name,
      ...shownFinding(finding),
    })),
  };
}

const UNANSWERED = {
  ok: false,
  status: null,
  latency_ms: TEST_TIMEOUT_MS,
  message: '',
  identity: null,
  region: null,
};

function shownFinding({ ok, status, latencyMs, message, identity, region }: ProxyFinding) {
  return {
    ok,
    status: status === 0 ? null : status,
    latency_ms: latencyMs,
    message,
    identity: identity === '' ? null : identity,
    region: region === '' ? null : region,
  };
}
