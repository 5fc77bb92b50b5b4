import { create } from '@bufbuild/protobuf';
import { OAuthClientSchema, Outcome } from '@weighbridge/contracts';
import {
  type AuthorizationServer,
  type AuthorizationServerOptions,
  startAuthorizationServer,
  startTokenGateway,
} from '@weighbridge/mock-vendor/clouds';
import { describe, expect, it, onTestFinished } from 'vitest';
import { HELLO, HELLO_BY_ROUTE, post } from './post.ts';
import type { TestProxyOptions } from './proxy.ts';
import { startVendor } from './servers.ts';
import { startProxyForTest, useVendor } from './useProxy.ts';

const SECRET = 'the secret of the client: ä+/';
const CLIENT = { clientId: 'gateway client', clientSecret: SECRET };

const vendor = useVendor();

/** A proxy whose first connector is behind a gateway that takes access tokens only. */
async function startScene(
  options: Partial<AuthorizationServerOptions> = {},
  proxyOptions: Partial<TestProxyOptions> = {},
  others: string[] = [],
) {
  const server = await startAuthorizationServer({ ...CLIENT, ...options });
  onTestFinished(() => server.close());
  const gateway = await startTokenGateway(vendor.url, server);
  onTestFinished(() => gateway.close());
  const value = create(OAuthClientSchema, {
    ...CLIENT,
    tokenUrl: server.tokenUrl,
    scope: (options.scopes ?? []).join(' '),
    audience: options.audience ?? '',
    basicAuthentication: options.clientAuthentication === 'basic',
    allowPrivateAddress: true,
  });
  const identity = { case: 'oauth' as const, value };
  const connectors = [
    { baseUrl: gateway.url, credential: '', identity },
    ...others.map((baseUrl) => ({ baseUrl })),
  ];
  const lines: string[] = [];
  const log = (line: string) => void lines.push(line);
  const proxy = await startProxyForTest({
    vendorUrl: vendor.url,
    connectors,
    log,
    maxRetries: 2,
    ...proxyOptions,
  });
  const chat = async () => {
    const answer = await post(proxy, '/v1/chat/completions', HELLO);
    return { status: answer.status, text: await answer.text() };
  };
  return { server, gateway, proxy, connectors, lines, chat };
}

describe('a connector behind OAuth', () => {
  it.each([
    ['in the body', {}],
    ['in the header', { clientAuthentication: 'basic' as const }],
    ['with scopes and an audience', { scopes: ['chat', 'read'], audience: 'urn:api' }],
  ])('serves every route with a token, which is asked for %s', async (_how, options) => {
    const { server, gateway, proxy } = await startScene(options);
    for (const [path, body] of HELLO_BY_ROUTE) {
      for (const stream of [false, true]) {
        const answer = await post(proxy, path, { ...body, stream });
        expect([path, answer.status, await answer.text()]).toEqual([path, 200, expect.stringMatching(/./)]);
      }
    }
    expect([server.answers, gateway.passed, gateway.refusals]).toEqual([['200'], 6, []]);
    expect(proxy.events).toHaveLength(6);
  });

  it('keeps its token when other settings of it change, and gets one for another client', async () => {
    const { server, proxy, connectors, chat } = await startScene();
    await chat();
    proxy.publish({ connectors: connectors.map((connector) => ({ ...connector, priority: 7 })) });
    expect([(await chat()).status, server.issued.length]).toEqual([200, 1]);
    const [{ identity, baseUrl } = raise()] = connectors as [
      { identity: { value: object }; baseUrl: string },
    ];
    const value = create(OAuthClientSchema, { ...identity.value, clientSecret: 'another' });
    proxy.publish({ connectors: [{ baseUrl, credential: '', identity: { case: 'oauth', value } }] });
    expect((await chat()).status).toBe(502);
    expect(server.answers).toEqual(['200', 'invalid_client']);
  });
});

describe('a connector without a token', () => {
  it.each<[string, string, Partial<AuthorizationServer>]>([
    ['a client that is not known any more', '401', { isClientRevoked: true }],
    ['a provider that is down', 'could not be reached', { mode: 'down' }],
    ['a provider that fails', '503', { mode: 'failing' }],
  ])(
    'is 502 connector_unauthorized, costs nothing, and is told to the operator: %s',
    async (_what, error, change) => {
      const { server, gateway, proxy, lines, chat } = await startScene();
      Object.assign(server, change);
      const { status, text } = await chat();
      expect([status, JSON.parse(text).error]).toMatchObject([502, { code: 'connector_unauthorized' }]);
      expect([gateway.passed, gateway.refusals]).toEqual([0, []]);
      expect(proxy.events.map(({ costNanoUsd, outcome }) => [costNanoUsd, outcome])).toEqual([
        [0n, Outcome.UPSTREAM_UNREACHABLE],
      ]);
      expect(proxy.unauthorized).toEqual(['con_0: 0']);
      expect(proxy.tokenFailures).toMatchObject([{ id: 'con_0', hasToken: false }]);
      expect(proxy.tokenFailures[0]?.error.message).toContain(error);
      const shown = [text, ...lines, ...proxy.tokenFailures.map((failure) => failure.error.message)].join(
        '\n',
      );
      for (const part of [SECRET, encodeURIComponent(SECRET), 'client_secret='])
        expect(shown).not.toContain(part);
    },
  );

  it('leaves its requests to the next one', async () => {
    const other = await startVendor((request, response) => {
      request.resume();
      response.end('{"id":"of the other","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}');
    });
    const { server, proxy, chat } = await startScene({}, {}, [other]);
    server.isClientRevoked = true;
    const { status, text } = await chat();
    expect([status, JSON.parse(text).id, proxy.failovers]).toEqual([
      200,
      'of the other',
      ['con_0: credential'],
    ]);
    // The first connector counts as dead: the next request asks for no token, and goes to the other at once.
    expect([(await chat()).status, server.answers.length, proxy.failovers.length]).toEqual([200, 1, 1]);
  });

  it('serves again when its client is known again', async () => {
    let skippedMs = 0;
    const { server, chat } = await startScene({}, { nowMs: () => performance.now() + skippedMs });
    server.isClientRevoked = true;
    expect((await chat()).status).toBe(502);
    server.isClientRevoked = false;
    skippedMs = 61_000;
    expect((await chat()).status).toBe(200);
  });

  it('shows no token in an error of the vendor that repeats it', async () => {
    const { server, proxy, connectors } = await startScene();
    const echo = await startVendor((request, response) => {
      request.resume();
      response
        .writeHead(422, { 'content-type': 'application/json', 'x-echo': request.headers.authorization })
        .end(JSON.stringify({ error: { message: `sent with ${request.headers.authorization}` } }));
    });
    proxy.publish({ connectors: connectors.map((connector) => ({ ...connector, baseUrl: echo })) });
    const answer = await post(proxy, '/v1/chat/completions', HELLO);
    const shown = (await answer.text()) + JSON.stringify([...answer.headers]);
    expect([answer.status, server.issued.length]).toEqual([422, 1]);
    expect(shown).toContain('[removed]');
    expect(shown).not.toContain(server.issued[0] ?? '?');
  });
});

function raise(): never {
  throw new Error('there is a connector');
}
