import type { RequestListener } from 'node:http';

/** Counts the requests that a handler has begun and not ended, in every route. */
export function countRequests(handler: RequestListener): { handler: RequestListener; count: () => number } {
  let count = 0;
  const end = () => {
    count--;
  };
  return {
    count: () => count,
    handler: (request, response) => {
      count++;
      response.on('close', end);
      handler(request, response);
    },
  };
}
