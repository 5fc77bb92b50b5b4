import { Server } from 'node:net';

// Imported before a contender that would listen on all interfaces: a benchmark opens nothing to the network.
const { listen } = Server.prototype;
type Listen = (this: Server, port: number, host?: string, ...more: unknown[]) => Server;
(Server.prototype as { listen: Listen }).listen = function listenOnLoopback(port, host, ...more) {
  return (listen as Listen).call(this, port, host ?? '127.0.0.1', ...more);
};
