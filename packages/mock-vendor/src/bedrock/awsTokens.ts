import { randomBytes } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { listenLocally } from '../shared/listenLocally.ts';
import { type AwsAccount, sigV4Fault } from './sigV4.ts';

export interface AwsTokensOptions {
  readonly region: string;
  /** Who may assume the role. */
  readonly callers?: readonly AwsAccount[];
  /** How long temporary credentials live, in milliseconds. Default: one hour. */
  readonly lifeMs?: number;
  readonly nowMs?: () => number;
}

/**
 * What issues temporary credentials at AWS: the Security Token Service for one role, which callers assume by their keys or by the
 * token of a pod (IRSA), and the agent of a node (Pod Identity).
 */
export interface AwsTokens {
  /** For `AWS_ENDPOINT_URL_STS`. */
  readonly url: string;
  /** For `AWS_CONTAINER_CREDENTIALS_FULL_URI`. */
  readonly agentUrl: string;
  /** What the agent wants in `authorization`. */
  readonly agentToken: string;
  readonly roleArn: string;
  /** What the role asks for of those who assume it by their keys. */
  readonly externalId: string;
  /** The token of the pod that the role trusts. */
  readonly podToken: string;
  /** The valid credentials, for Bedrock. */
  readonly accounts: AwsAccount[];
  /** The answers so far: `<what> 200`, or `<what> <error>`. */
  readonly answers: readonly string[];
  /** The session tokens that it issued, oldest first. */
  readonly issued: readonly string[];
  /** What it does with requests: `down` closes the connection, `hanging` never answers. */
  mode: 'up' | 'down' | 'hanging' | 'failing';
  /** It answers after this time. */
  delayMs: number;
  lifeMs: number;
  /** The role trusts no one any more. */
  isRevoked: boolean;
  /** The token of the pod has expired. */
  isPodTokenExpired: boolean;
  /** No credentials issued so far are valid. */
  revokeTokens(): void;
  close(): Promise<void>;
}

const ROLE = 'arn:aws:iam::123456789012:role/models';
/** As the Security Token Service calls what a signature lacks. */
const STS_CODES: Readonly<Record<string, string>> = {
  UnrecognizedClientException: 'InvalidClientTokenId',
  InvalidSignatureException: 'SignatureDoesNotMatch',
  ExpiredTokenException: 'ExpiredToken',
};

interface Answer {
  readonly what: string;
  readonly status: number;
  readonly error?: string;
  readonly type: string;
  readonly body: string;
}

/** Starts it on a free port of the loopback interface. */
export async function startAwsTokens(options: AwsTokensOptions): Promise<AwsTokens> {
  const { region, callers = [], nowMs = Date.now } = options;
  const answers: string[] = [];
  const issued: string[] = [];

  function issue() {
    const account = {
      accessKeyId: `ASIA${randomBytes(8).toString('hex').toUpperCase()}`,
      secretAccessKey: randomBytes(30).toString('base64'),
      sessionToken: `session-${randomBytes(60).toString('base64')}`,
    };
    const expiresAtMs = nowMs() + tokens.lifeMs;
    tokens.accounts.push({
      ...account,
      // Bedrock checks signatures by the clock of the machine.
      get expiresAtMs() {
        return expiresAtMs - (nowMs() - Date.now());
      },
    });
    issued.push(account.sessionToken);
    // Its clock is that of the machine: what it issues lives as long whatever the test's clock says.
    return { ...account, expiration: new Date(Date.now() + tokens.lifeMs).toISOString() };
  }

  function byService(request: IncomingMessage, body: Buffer): Answer {
    const given = new URLSearchParams(body.toString('utf8'));
    const action = given.get('Action') ?? '';
    const error = faultOf(request, body, given);
    if (error !== undefined) {
      // It repeats what was sent: nobody may show it.
      const message = body.toString('utf8').replaceAll('&', '&amp;');
      return xml(action, 'Error', error, `<Code>${error}</Code><Message>${message}</Message>`);
    }
    const { accessKeyId, secretAccessKey, sessionToken, expiration } = issue();
    const fields = `<AccessKeyId>${accessKeyId}</AccessKeyId><SecretAccessKey>${secretAccessKey}</SecretAccessKey><SessionToken>${sessionToken}</SessionToken><Expiration>${expiration}</Expiration>`;
    const arn = `arn:aws:sts::123456789012:assumed-role/models/${given.get('RoleSessionName')}`;
    return xml(
      action,
      `${action}Result`,
      undefined,
      `<Credentials>${fields}</Credentials><AssumedRoleUser><Arn>${arn}</Arn><AssumedRoleId>AROA:a</AssumedRoleId></AssumedRoleUser>`,
    );
  }

  function faultOf(
    { method = '', url = '', headers }: IncomingMessage,
    body: Buffer,
    given: URLSearchParams,
  ) {
    const isByPod = given.get('Action') === 'AssumeRoleWithWebIdentity';
    if (!isByPod) {
      if (given.get('Action') !== 'AssumeRole') return 'InvalidAction';
      const call = { method, url, headers, body };
      // Whoever asks signs with the clock of the machine.
      const fault = sigV4Fault(call, callers, { service: 'sts', region, nowMs: Date.now() });
      if (fault) return STS_CODES[fault.code] ?? fault.code;
    }
    if (tokens.isRevoked || given.get('RoleArn') !== ROLE) return 'AccessDenied';
    if (!isByPod) return given.get('ExternalId') === tokens.externalId ? undefined : 'AccessDenied';
    if (tokens.isPodTokenExpired) return 'ExpiredTokenException';
    return given.get('WebIdentityToken') === tokens.podToken ? undefined : 'InvalidIdentityToken';
  }

  function byAgent({ headers }: IncomingMessage): Answer {
    const isKnown = headers.authorization === tokens.agentToken && !tokens.isRevoked;
    if (!isKnown) return json('agent', 400, { code: 'AccessDeniedException', message: 'not associated' });
    const { accessKeyId, secretAccessKey, sessionToken, expiration } = issue();
    return json('agent', 200, {
      AccessKeyId: accessKeyId,
      SecretAccessKey: secretAccessKey,
      Token: sessionToken,
      Expiration: expiration,
      AccountId: '123456789012',
    });
  }

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (tokens.mode === 'down') return void request.socket.destroy();
    const chunks: Buffer[] = [];
    for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
    if (tokens.mode === 'hanging') return;
    if (tokens.delayMs > 0) await new Promise((resolve) => setTimeout(resolve, tokens.delayMs));
    const isAgent = request.url === '/v1/credentials';
    const { what, status, error, type, body } =
      tokens.mode === 'failing'
        ? json('?', 503, { message: 'unavailable' })
        : isAgent
          ? byAgent(request)
          : byService(request, Buffer.concat(chunks));
    answers.push(`${what} ${error ?? status}`);
    response.writeHead(status, { 'content-type': type }).end(body);
  }

  const http = createServer(
    (request, response) => void serve(request, response).catch(() => response.destroy()),
  );
  const url = `http://127.0.0.1:${await listenLocally(http)}`;
  const tokens: AwsTokens = {
    url,
    agentUrl: `${url}/v1/credentials`,
    agentToken: `agent-${randomBytes(12).toString('hex')}`,
    roleArn: ROLE,
    externalId: 'of the tenant',
    podToken: `pod-${randomBytes(12).toString('hex')}`,
    accounts: [],
    answers,
    issued,
    mode: 'up',
    delayMs: 0,
    lifeMs: options.lifeMs ?? 3_600_000,
    isRevoked: false,
    isPodTokenExpired: false,
    revokeTokens() {
      tokens.accounts.length = 0;
    },
    async close() {
      http.closeAllConnections();
      await new Promise<void>((resolve) => http.close(() => resolve()));
    },
  };
  return tokens;
}

function json(what: string, status: number, body: object): Answer {
  return { what, status, type: 'application/json', body: JSON.stringify(body) };
}

/** https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRole.html */
function xml(action: string, inner: string, error: string | undefined, fields: string): Answer {
  const outer = error === undefined ? `${action}Response` : 'ErrorResponse';
  const body = `<${outer} xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><${inner}>${fields}</${inner}></${outer}>`;
  const answer = { what: action, type: 'text/xml', body };
  return error === undefined
    ? { ...answer, status: 200 }
    : { ...answer, status: error === 'ExpiredTokenException' ? 400 : 403, error };
}
