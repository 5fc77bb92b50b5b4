import { tmpdir } from 'node:os';
import { freePort, testRun } from '@weighbridge/testing';
import { expect, it } from 'vitest';
import { callPeer, orAbsent, startedPeer, startPeer } from './peer.ts';

/** A peer of one line, which answers every call with what it was sent. */
const ECHO = `require('node:http').createServer(async (request, response) => {
  const body = (await request.toArray()).join('');
  response.writeHead(body.includes('refuse') ? 403 : 200);
  response.end(JSON.stringify({ token: request.headers.authorization, body }));
}).listen(process.env.PORT, '127.0.0.1')`;

async function start(script: string) {
  const port = await freePort();
  const command = [process.execPath, '-e', script];
  const more = { name: 'Peer 1', port, model: 'm', tokens: ['t'], isGoverned: true, howRun: 'as it is' };
  return await orAbsent('Peer', async () => {
    const env = { PORT: String(port) };
    return startedPeer(
      await startPeer(testRun(), { command, env, cwd: tmpdir(), port, core: undefined }),
      more,
    );
  });
}

it('starts a peer, and calls its own API', async () => {
  const peer = await start(ECHO);
  if ('reason' in peer) throw new Error(peer.reason);
  const { contender, process } = peer;
  expect(contender).toMatchObject({ name: 'Peer 1', pid: process.pid, expects: 'mark', isOurs: false });
  await expect(callPeer(contender.url, 'secret', { name: 'bench' })).resolves.toEqual({
    token: 'Bearer secret',
    body: '{"name":"bench"}',
  });
  await expect(callPeer(contender.url, 'secret', { name: 'refuse' })).rejects.toThrow(': 403 {');
  await process.stop();
});

it('leaves out a peer that ends before it accepts connections, with its output as the reason', async () => {
  const reason = 'Error: it does not accept connections: no license';
  await expect(start(`console.log('no license'); process.exit(3)`)).resolves.toEqual({
    name: 'Peer',
    reason,
  });
});
