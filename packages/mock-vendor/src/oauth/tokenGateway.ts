import {
  Agent,
  createServer,
  request as forward,
  type IncomingMessage,
  type ServerResponse,
} from 'node:http';
import { listenLocally } from '../shared/listenLocally.ts';
import type { AuthorizationServer } from './authorizationServer.ts';

/** A gateway that lets requests with a valid access token through to a vendor. */
export interface TokenGateway {
  /** The base URL for a connector. */
  readonly url: string;
  /** How many requests it let through, and why it refused the others. */
  readonly passed: number;
  readonly refusals: readonly string[];
  close(): Promise<void>;
}

/** Starts it in front of the vendor's base URL. It accepts nothing but one bearer token, which expires on its own clock. */
export async function startTokenGateway(
  vendorUrl: string,
  tokens: Pick<AuthorizationServer, 'faultOf'>,
): Promise<TokenGateway> {
  const vendor = new URL(vendorUrl);
  const refusals: string[] = [];
  // The vendor closes connections that idle for 5 seconds, as the default agent does: one of a request might be among them.
  const agent = new Agent({ keepAlive: true, timeout: 2_000 });
  let passed = 0;

  function serve(request: IncomingMessage, response: ServerResponse): void {
    const fault = faultOf(request, tokens);
    if (fault !== undefined) {
      refusals.push(fault);
      request.resume();
      // RFC 6750, section 3. It repeats the token: nobody may show it.
      const message = `The token ${request.headers.authorization} is ${fault}.`;
      response
        .writeHead(401, {
          'content-type': 'application/json',
          'www-authenticate': 'Bearer error="invalid_token"',
        })
        .end(JSON.stringify({ error: { message, type: 'invalid_request_error', code: 'invalid_token' } }));
      return;
    }
    passed++;
    const { authorization: _ours, ...headers } = request.headers;
    const { hostname, port } = vendor;
    const options = { agent, hostname, port, path: request.url, method: request.method, headers };
    const call = forward(options, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
    });
    call.on('error', () => response.destroy());
    response.on('close', () => call.destroy());
    request.pipe(call);
  }

  const http = createServer(serve);
  const port = await listenLocally(http);
  return {
    url: `http://127.0.0.1:${port}${vendor.pathname}`,
    get passed() {
      return passed;
    },
    refusals,
    async close() {
      agent.destroy();
      http.closeAllConnections();
      await new Promise<void>((resolve) => http.close(() => resolve()));
    },
  };
}

function faultOf(
  { headers }: IncomingMessage,
  tokens: Pick<AuthorizationServer, 'faultOf'>,
): string | undefined {
  const [, token] = /^Bearer (\S+)$/.exec(headers.authorization ?? '') ?? [];
  if (token === undefined) return 'missing';
  // A static key beside it would be a leak.
  if (headers['x-api-key'] ?? headers['api-key'] ?? headers['x-goog-api-key']) return 'ambiguous';
  return tokens.faultOf(token);
}
