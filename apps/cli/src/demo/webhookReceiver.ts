import { createHmac, timingSafeEqual } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';

export interface ReceivedAlert {
  readonly type: string;
  readonly policyName: string;
  readonly percent: number | undefined;
}

/** Someone's own endpoint for alerts: it verifies each message before it believes it. */
export interface WebhookReceiver {
  readonly url: string;
  readonly host: string;
  /** The secret of the webhook, which the service shows once. */
  trust(secret: string): void;
  /** Those with a valid signature, each once. */
  readonly alerts: readonly ReceivedAlert[];
  readonly forged: number;
  close(): Promise<void>;
}

export async function startWebhookReceiver(
  onAlert: (alert: ReceivedAlert) => void,
): Promise<WebhookReceiver> {
  const alerts: ReceivedAlert[] = [];
  const seen = new Set<string>();
  let key = Buffer.alloc(0);
  let forged = 0;
  const server = createServer((request, response) => {
    void buffer(request).then(
      (body) => {
        const id = String(request.headers['webhook-id']);
        const signed = `${id}.${request.headers['webhook-timestamp']}.`;
        const expected = createHmac('sha256', key).update(signed).update(body).digest();
        const given = String(request.headers['webhook-signature']).split(' ');
        if (!given.some((one) => isEqual(expected, Buffer.from(one.replace(/^v1,/, ''), 'base64')))) {
          forged++;
          return void response.writeHead(401).end();
        }
        response.writeHead(204).end();
        if (seen.has(id)) return;
        seen.add(id);
        const alert = readAlert(body.toString());
        alerts.push(alert);
        onAlert(alert);
      },
      () => response.destroy(),
    );
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, '127.0.0.1', resolve);
  });
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url: `http://${host}/alerts`,
    host,
    trust(secret) {
      key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64');
    },
    alerts,
    get forged() {
      return forged;
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function isEqual(expected: Buffer, given: Buffer): boolean {
  return given.length === expected.length && timingSafeEqual(given, expected);
}

function readAlert(text: string): ReceivedAlert {
  const { type, data } = JSON.parse(text);
  return { type, policyName: data.policy_name ?? '', percent: data.percent };
}
