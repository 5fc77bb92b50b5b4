import { createServer } from 'node:http';
import { json } from 'node:stream/consumers';
import { announce } from '../shared/announce.ts';
import type { LoadOrder } from './loadOrder.ts';
import { runLoad } from './runLoad.ts';

// The load generator as a separate process: takes a `LoadOrder` by POST and answers with its `LoadResult`.

const server = createServer(async (request, response) => {
  try {
    const result = await runLoad((await json(request)) as LoadOrder);
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(result));
  } catch (error) {
    response.writeHead(500).end(String(error));
  }
});
server.requestTimeout = 0;
announce(server);
