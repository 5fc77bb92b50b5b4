import * as oauth from 'openid-client';
import { expect, it, onTestFinished } from 'vitest';
import { type AuthorizationServerOptions, startAuthorizationServer } from './authorizationServer.ts';

const CLIENT = { clientId: 'gateway: client', clientSecret: 'a secret/with+signs=' };

async function startScene(options: Partial<AuthorizationServerOptions> = {}) {
  const server = await startAuthorizationServer({ ...CLIENT, ...options });
  onTestFinished(() => server.close());
  const ask = async (parameters: Record<string, string>, authentication: oauth.ClientAuth) => {
    const metadata = { issuer: new URL(server.tokenUrl).origin, token_endpoint: server.tokenUrl };
    const config = new oauth.Configuration(metadata, CLIENT.clientId, undefined, authentication);
    oauth.allowInsecureRequests(config);
    return await oauth.clientCredentialsGrant(config, parameters);
  };
  return { server, ask };
}

it.each([
  ['post', oauth.ClientSecretPost(CLIENT.clientSecret)],
  ['basic', oauth.ClientSecretBasic(CLIENT.clientSecret)],
] as const)(
  'issues tokens to openid-client, which proves who it is by %s',
  async (method, authentication) => {
    const nowMs = () => Date.now() + skippedMs;
    let skippedMs = 0;
    const known = {
      clientAuthentication: method,
      scopes: ['a', 'b'],
      audience: 'models',
      lifeMs: 60_000,
      nowMs,
    };
    const { server, ask } = await startScene(known);
    const { access_token, expires_in } = await ask({ scope: 'a b', audience: 'models' }, authentication);
    expect([expires_in, server.issued, server.faultOf(access_token)]).toEqual([
      60,
      [access_token],
      undefined,
    ]);
    skippedMs = 61_000;
    expect([server.faultOf(access_token), server.faultOf('another')]).toEqual(['expired', 'unknown']);
    skippedMs = 0;
    server.revokeTokens();
    expect(server.faultOf(access_token)).toBe('revoked');
  },
);

it.each<[string, Record<string, string>, oauth.ClientAuth, string]>([
  ['a wrong secret', {}, oauth.ClientSecretPost('another'), 'invalid_client'],
  ['another method', {}, oauth.ClientSecretBasic(CLIENT.clientSecret), 'invalid_client'],
  ['no secret', {}, oauth.None(), 'invalid_client'],
  [
    'a scope that it does not have',
    { scope: 'c' },
    oauth.ClientSecretPost(CLIENT.clientSecret),
    'invalid_scope',
  ],
  ['another audience', { audience: 'c' }, oauth.ClientSecretPost(CLIENT.clientSecret), 'invalid_target'],
  [
    'a parameter that it does not know',
    { made_up: 'c' },
    oauth.ClientSecretPost(CLIENT.clientSecret),
    'invalid_request',
  ],
])('refuses openid-client with %s', async (_what, parameters, authentication, error) => {
  const { server, ask } = await startScene();
  await expect(ask(parameters, authentication)).rejects.toThrow();
  expect([server.answers, server.issued]).toEqual([[error], []]);
});
