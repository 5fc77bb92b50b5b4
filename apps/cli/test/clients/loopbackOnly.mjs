// Imported before the service under test: a client may ask it to connect to anywhere, and nothing leaves this machine.
import dns from 'node:dns';
import { syncBuiltinESMExports } from 'node:module';
import net from 'node:net';

const isLoopback = (host) => host === undefined || /^(localhost|127\.|::1$|\[::1\]$)/.test(host);

function refused(code, host) {
  return Object.assign(new Error(`connect ${code} ${host}: only this machine can be reached in tests`), {
    code,
  });
}

const { connect } = net.Socket.prototype;
net.Socket.prototype.connect = function connectOnLoopback(...args) {
  const [first] = Array.isArray(args[0]) ? args[0] : args;
  const host =
    typeof first === 'object' && first !== null ? (first.path ? undefined : first.host) : undefined;
  if (net.isIP(host ?? '') === 0 || isLoopback(host)) return connect.apply(this, args);
  process.nextTick(() => this.destroy(refused('ENETUNREACH', host)));
  return this;
};

const { lookup } = dns;
dns.lookup = function lookupOnLoopback(host, options, callback) {
  if (net.isIP(host ?? '') !== 0 || isLoopback(host)) return lookup(host, options, callback);
  const done = typeof options === 'function' ? options : callback;
  process.nextTick(() => done(refused('ENOTFOUND', host)));
  return {};
};
syncBuiltinESMExports();
