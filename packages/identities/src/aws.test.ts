import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { type AwsIdentity, fetchAwsCredentials, signAws } from './aws.ts';
import { IdentityError } from './identityError.ts';

const SECRET = 'canary-secret-access-key';
const KEYS = { accessKeyId: 'AKIDEXAMPLE00001', secretAccessKey: SECRET };
const ROLE = 'arn:aws:iam::123456789012:role/models';

let home: string;
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'weighbridge-aws-'));
  for (const name of Object.keys(process.env).filter((one) => one.startsWith('AWS_')))
    vi.stubEnv(name, undefined);
  vi.stubEnv('AWS_CONFIG_FILE', join(home, 'config'));
  vi.stubEnv('AWS_SHARED_CREDENTIALS_FILE', join(home, 'credentials'));
  vi.stubEnv('AWS_EC2_METADATA_DISABLED', 'true');
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await rm(home, { recursive: true, force: true });
});

async function listen(handler: RequestListener): Promise<string> {
  const server = createServer(handler);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const identity = (fields: Partial<AwsIdentity> = {}): AwsIdentity => ({
  region: 'eu-central-1',
  accessKeyId: '',
  secretAccessKey: '',
  sessionToken: '',
  roleArn: '',
  externalId: '',
  ...fields,
});
const fails = async (fields: Partial<AwsIdentity>) => {
  const error = await fetchAwsCredentials(identity(fields)).catch((reason) => reason);
  expect(error).toBeInstanceOf(IdentityError);
  expect(JSON.stringify([error.message, error.cause])).not.toContain(SECRET);
  return [error.isRefused, error.message];
};
const inAnHour = () => new Date(Date.now() + 3_600_000).toISOString().replace(/\.\d+Z/, 'Z');

/** Security Token Service: it answers with an error if there is one, else with credentials. */
async function startSts(error?: string) {
  const asked: { authorization: string; parameters: URLSearchParams }[] = [];
  const url = await listen(async (request, response) => {
    let body = '';
    for await (const chunk of request) body += chunk;
    asked.push({
      authorization: String(request.headers.authorization),
      parameters: new URLSearchParams(body),
    });
    if (error) {
      response.writeHead(403, { 'content-type': 'text/xml' });
      response.end(
        `<ErrorResponse><Error><Code>${error}</Code><Message>${SECRET}</Message></Error></ErrorResponse>`,
      );
      return;
    }
    const action = String(asked.at(-1)?.parameters.get('Action'));
    response.writeHead(200, { 'content-type': 'text/xml' });
    response.end(
      `<${action}Response><${action}Result><Credentials><AccessKeyId>ASIAROLE</AccessKeyId><SecretAccessKey>of-the-role</SecretAccessKey><SessionToken>session</SessionToken><Expiration>${inAnHour()}</Expiration></Credentials><AssumedRoleUser><Arn>arn:aws:sts::123456789012:assumed-role/models/weighbridge</Arn><AssumedRoleId>AROA:weighbridge</AssumedRoleId></AssumedRoleUser></${action}Result></${action}Response>`,
    );
  });
  vi.stubEnv('AWS_ENDPOINT_URL_STS', url);
  return asked;
}

describe('credentials for AWS', () => {
  it('are those that are given', async () => {
    expect(await fetchAwsCredentials(identity({ ...KEYS, sessionToken: 'of-now' }))).toEqual({
      value: { ...KEYS, sessionToken: 'of-now' },
      lifeMs: 900_000,
    });
  });

  it('come from the environment, else from a profile', async () => {
    await writeFile(
      join(home, 'credentials'),
      '[default]\naws_access_key_id=AKIDPROFILE\naws_secret_access_key=p\n',
    );
    expect((await fetchAwsCredentials(identity())).value.accessKeyId).toBe('AKIDPROFILE');
    vi.stubEnv('AWS_ACCESS_KEY_ID', 'AKIDENV');
    vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'e');
    expect((await fetchAwsCredentials(identity())).value.accessKeyId).toBe('AKIDENV');
  });

  it('come from the service account of a pod (IRSA)', async () => {
    const asked = await startSts();
    await writeFile(join(home, 'token'), 'token-of-the-pod');
    vi.stubEnv('AWS_WEB_IDENTITY_TOKEN_FILE', join(home, 'token'));
    vi.stubEnv('AWS_ROLE_ARN', ROLE);
    const { value, lifeMs } = await fetchAwsCredentials(identity());
    expect([value.accessKeyId, value.sessionToken]).toEqual(['ASIAROLE', 'session']);
    expect(lifeMs).toBeGreaterThan(3_500_000);
    expect(asked[0]?.parameters.get('WebIdentityToken')).toBe('token-of-the-pod');
  });

  it('come from the agent of a node (Pod Identity)', async () => {
    const url = await listen((request, response) => {
      const isRight = request.headers.authorization === 'of-the-agent';
      const body = { AccessKeyId: 'ASIAPOD', SecretAccessKey: 's', Token: 't', Expiration: inAnHour() };
      response
        .writeHead(isRight ? 200 : 401, { 'content-type': 'application/json' })
        .end(JSON.stringify(body));
    });
    await writeFile(join(home, 'agent'), 'of-the-agent');
    vi.stubEnv('AWS_CONTAINER_CREDENTIALS_FULL_URI', `${url}/v1/credentials`);
    vi.stubEnv('AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE', join(home, 'agent'));
    expect((await fetchAwsCredentials(identity())).value.accessKeyId).toBe('ASIAPOD');
  });

  it('are those of a role that is assumed, with the external id that it asks for', async () => {
    const asked = await startSts();
    const assumed = await fetchAwsCredentials(
      identity({ ...KEYS, roleArn: ROLE, externalId: 'of the tenant' }),
    );
    expect(assumed.value).toEqual({
      accessKeyId: 'ASIAROLE',
      secretAccessKey: 'of-the-role',
      sessionToken: 'session',
    });
    const [{ authorization = '', parameters = new URLSearchParams() } = {}] = asked;
    expect(authorization).toContain(`Credential=${KEYS.accessKeyId}/`);
    expect([parameters.get('RoleArn'), parameters.get('ExternalId')]).toEqual([ROLE, 'of the tenant']);
  });

  it.each(['AccessDenied', 'InvalidClientTokenId', 'ExpiredToken', 'SignatureDoesNotMatch'])(
    'that a role refuses are an error that shows no secret: %s',
    async (error) => {
      await startSts(error);
      expect(await fails({ ...KEYS, roleArn: ROLE })).toEqual([true, expect.stringContaining(error)]);
    },
  );

  it('that are missing are an error, also if the metadata server hangs', async () => {
    expect(await fails({})).toEqual([false, expect.stringContaining('No credentials for AWS were found')]);
    let asked = 0;
    const url = await listen(() => void asked++);
    vi.stubEnv('AWS_EC2_METADATA_DISABLED', undefined);
    vi.stubEnv('AWS_EC2_METADATA_SERVICE_ENDPOINT', url);
    expect(await fails({})).toEqual([false, expect.stringContaining('No credentials for AWS were found')]);
    // Each has a time-out.
    expect(asked).toBe(3);
  });
});

it('signs as an example of AWS does', async () => {
  // https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html, the suite's post-vanilla.
  const signed = await signAws(
    { method: 'POST', host: 'example.amazonaws.com', path: '/', contentType: undefined, body: [] },
    { accessKeyId: 'AKIDEXAMPLE', secretAccessKey: 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY' },
    { service: 'service', region: 'us-east-1', now: new Date('2015-08-30T12:36:00Z') },
  );
  expect(Object.keys(signed).sort()).toEqual(['authorization', 'x-amz-content-sha256', 'x-amz-date']);
  expect(signed.authorization).toMatch(
    /^AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE\/20150830\/us-east-1\/service\/aws4_request, SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature=[0-9a-f]{64}$/,
  );
});
