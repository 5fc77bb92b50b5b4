// WEBHOOK_SECRET=whsec_… node docs/examples/webhook-receiver.mjs: prints each event whose signature is valid, once.
// The service sends to this address only if it was started with ALLOWED_WEBHOOK_HOSTS=127.0.0.1:4010.
import { createHmac, timingSafeEqual } from 'node:crypto';
import { createServer } from 'node:http';
import { buffer } from 'node:stream/consumers';

const { WEBHOOK_SECRET, PORT = '4010' } = process.env;
if (!WEBHOOK_SECRET) {
  console.error(
    'Set WEBHOOK_SECRET to the secret of the webhook, which was shown when it was created: whsec_…',
  );
  process.exit(2);
}
const key = Buffer.from(WEBHOOK_SECRET.replace('whsec_', ''), 'base64');
const seen = new Set();

function isGenuine(
  { 'webhook-id': id, 'webhook-timestamp': at, 'webhook-signature': signatures = '' },
  body,
) {
  if (!(Math.abs(Date.now() / 1000 - Number(at)) <= 300)) return false;
  const expected = createHmac('sha256', key).update(`${id}.${at}.`).update(body).digest();
  const given = signatures.split(' ').map((one) => Buffer.from(one.replace('v1,', ''), 'base64'));
  return given.some((one) => one.length === expected.length && timingSafeEqual(one, expected));
}

createServer(async (request, response) => {
  const body = await buffer(request);
  if (!isGenuine(request.headers, body)) return response.writeHead(401).end();
  const { type, data } = JSON.parse(body);
  if (!seen.has(request.headers['webhook-id'])) console.log(type, data.policy_name ?? '', data.percent ?? '');
  seen.add(request.headers['webhook-id']);
  response.writeHead(204).end();
}).listen(Number(PORT), '127.0.0.1', () => console.log('listening'));
