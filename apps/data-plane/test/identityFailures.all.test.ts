import { afterAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { awsKeys, IDENTITIES, type OpenCloud } from './identifiedClouds.ts';
import {
  clearIdentityEnvironment,
  type IdentityScene,
  type SceneOptions,
  startIdentityScene,
} from './identityScenes.ts';
import { listen, startVendor } from './servers.ts';
import { useVendor } from './useProxy.ts';

const vendor = useVendor({ traits: { strict: true } });

beforeEach(() => clearIdentityEnvironment(Object.keys(process.env)));
afterAll(() => void vi.unstubAllEnvs());

const {
  'a client of OAuth': oauth,
  'an application of Entra ID': azure,
  'a service account of Google': google,
  'the metadata server of Google': machine,
  'a role at AWS': role,
  'the service account of a pod at AWS': pod,
  'the agent of a node at AWS': agent,
} = IDENTITIES as Readonly<Record<string, OpenCloud>> & Record<string, OpenCloud>;

interface Failure {
  readonly by: OpenCloud | undefined;
  readonly options?: SceneOptions;
  readonly spoil?: (scene: IdentityScene) => void | Promise<void>;
  /** What the operator is told, if it is the proxy that finds out. */
  readonly says?: string;
}

/** It hangs for longer than another attempt may start after the first, as far as that counts. */
const HANGING: SceneOptions = { options: { identityTimeoutMs: 1_000, retryWithinMs: 500 } };
const off = (ms: number): SceneOptions => ({ options: { clockMs: () => Date.now() + ms } });
const set = (fields: object) => (scene: IdentityScene) => void Object.assign(scene.provider, fields);

/** Whatever can be wrong with an identity, or with what issues its tokens. */
const FAILURES: Readonly<Record<string, Failure>> = {
  'a key that AWS does not know': { by: awsKeys, options: { identity: { accessKeyId: 'AKIDUNKNOWN00001' } } },
  'a wrong secret at AWS': { by: awsKeys, options: { identity: { secretAccessKey: 'canary of another' } } },
  'a session at AWS that is not that of the key': {
    by: awsKeys,
    options: { identity: { sessionToken: '' } },
  },
  'keys for another region': { by: awsKeys, options: { identity: { region: 'us-east-1' } } },
  'a clock that is slow, at AWS': { by: awsKeys, options: off(-600_000) },
  'a clock that is fast, at AWS': { by: awsKeys, options: off(600_000) },
  'a role that wants another external id': {
    by: role,
    options: { identity: { externalId: 'of another' } },
    says: 'AccessDenied',
  },
  'a role that the keys may not assume': {
    by: role,
    options: { identity: { secretAccessKey: 'canary of another' } },
    says: 'SignatureDoesNotMatch',
  },
  'a token of the pod at AWS that has expired': {
    by: pod,
    spoil: set({ isPodTokenExpired: true }),
    says: 'ExpiredToken',
  },
  'no identity for AWS': {
    by: agent,
    spoil: () => clearIdentityEnvironment(Object.keys(process.env)),
    says: 'No credentials for AWS',
  },
  'a metadata server that hangs, at AWS': {
    by: agent,
    spoil: async () => {
      const hanging = await listen(() => {});
      clearIdentityEnvironment(Object.keys(process.env));
      vi.stubEnv('AWS_EC2_METADATA_DISABLED', undefined);
      vi.stubEnv('AWS_EC2_METADATA_SERVICE_ENDPOINT', hanging);
    },
    says: 'No credentials for AWS',
  },
  'no identity for Google': {
    by: machine,
    spoil: () => clearIdentityEnvironment(Object.keys(process.env)),
    says: 'No credentials for Google Cloud',
  },
  'a key that is none, at Google': {
    by: google,
    options: { identity: { credentials: '{"type":"service_account","private_key":"canary of the key"}' } },
    says: 'client_email',
  },
  'a clock that is off by an hour, at Google': {
    by: google,
    spoil: (scene) => void Object.assign(scene.clock, { skippedMs: 4_000_000 }),
    says: 'clock of the proxy',
  },
  'a wrong secret at Entra ID': {
    by: azure,
    options: { identity: { clientSecret: 'canary~of.another' } },
    says: 'AADSTS7000215',
  },
  'a wrong secret of OAuth': {
    by: oauth,
    options: { identity: { clientSecret: 'canary of another' } },
    says: 'status 401',
  },
};
for (const [name, by] of Object.entries(IDENTITIES)) {
  Object.assign(FAILURES, {
    [`${name} that was revoked`]: { by, spoil: (scene: IdentityScene) => scene.revokeIdentity() },
    [`${name} while what issues its tokens is down`]: { by, spoil: set({ mode: 'down' }) },
    [`${name} while what issues its tokens hangs`]: {
      by,
      options: HANGING,
      spoil: set({ mode: 'hanging' }),
      says: 'did not answer',
    },
    [`${name} whose tokens are refused as soon as they are issued`]: {
      by,
      spoil: async (scene: IdentityScene) => {
        await scene.ask();
        scene.provider.revokeTokens();
        scene.proxy.events.length = 0;
      },
    },
    [`${name} that may not use models`]: { by, spoil: (scene: IdentityScene) => scene.forbid?.() },
  } satisfies Record<string, Failure>);
}
// A gateway of one's own has no such refusal in common with others.
delete (FAILURES as Record<string, Failure>)['a client of OAuth that may not use models'];

const EMPTY = { input_tokens: 1, output_tokens: 1, prompt_tokens: 1, completion_tokens: 1 };
const OTHER = { id: 'of the other', type: 'message', content: [], choices: [], usage: EMPTY };

describe.each(Object.entries(FAILURES))('%s', (_what, { by, options = {}, spoil, says }) => {
  const open = async (more: SceneOptions = {}) => {
    if (!by) throw new Error('there is such an identity');
    const scene = await startIdentityScene(by, vendor.url, { ...options, ...more });
    await spoil?.(scene);
    return scene;
  };

  it('is 502 connector_unauthorized, costs nothing, is told to the operator, and shows no secret', async () => {
    const { ask, proxy, provider, secrets, shown } = await open();
    const { status, text } = await ask();
    expect([status, JSON.parse(text).error.code]).toEqual([502, 'connector_unauthorized']);
    expect(proxy.events.map(({ costNanoUsd }) => costNanoUsd).filter((cost) => cost !== 0n)).toEqual([]);
    expect([...proxy.unauthorized, ...proxy.suspected]).toEqual([expect.stringMatching(/^con_0: /)]);
    if (says) expect(proxy.tokenFailures.map(({ error }) => error.message).join()).toContain(says);
    const everything = shown(text);
    for (const secret of [...secrets, ...provider.issued, 'canary', '123456789012']) {
      expect(everything).not.toContain(secret);
    }
  });

  it('leaves its requests to the next target', async () => {
    const other = await startVendor((request, response) => {
      request.resume();
      response.end(JSON.stringify(OTHER));
    });
    const { ask, proxy } = await open({ others: [other] });
    const { status, text } = await ask();
    expect([status, JSON.parse(text).id]).toEqual([200, 'of the other']);
    expect(proxy.failovers).toEqual([expect.stringMatching(/^con_0: /)]);
  });
});

describe.each([
  ['Azure', azure, 404],
  ['Vertex AI', google, 404],
  ['Bedrock', awsKeys, 400],
] as const)('%s', (_cloud, by, missing) => {
  it.each<[string, SceneOptions, object, number]>([
    ['a model that the region lacks', { upstreamName: 'claude-none' }, {}, missing],
    ['a body that it refuses', {}, { no_such_member: 1 }, 400],
  ])('says what it has against %s, and keeps its connector', async (_what, options, fields, expected) => {
    if (!by) throw new Error('there is such an identity');
    const { ask, proxy, provider, shown } = await startIdentityScene(by, vendor.url, options);
    const { status, text } = await ask(fields);
    expect(status).toBe(expected);
    expect(JSON.parse(text).error.message).toMatch(/\w{4,}/);
    expect([proxy.unauthorized, proxy.suspected, proxy.failovers]).toEqual([[], [], []]);
    expect(proxy.events.map(({ costNanoUsd }) => costNanoUsd)).toEqual([0n]);
    for (const token of [...provider.issued, 'canary', 'acme-models'])
      expect(shown(text)).not.toContain(token);
  });
});
