import { connect, isIP, type LookupFunction, type OnReadOpts, type Socket } from 'node:net';
import { connect as connectTls, type TLSSocket } from 'node:tls';

/** As undici and browsers: notices a peer that is gone. */
const KEEP_ALIVE_MS = 60_000;

export interface SocketTarget {
  readonly isTls: boolean;
  /** Without the brackets of an IPv6 address. */
  readonly hostname: string;
  readonly port: number;
  readonly lookup: LookupFunction | undefined;
}

/** Opens sockets to one server. Over TLS, later ones resume the session of earlier ones. */
export class SocketOpener {
  readonly #target: SocketTarget;
  #session: Buffer | undefined;

  constructor(target: SocketTarget) {
    this.#target = target;
  }

  /** `onOpen` is called when it may be written to. What arrives goes to `onread`; `end`, `error` and `close` are the caller's. */
  open(onread: OnReadOpts, onOpen: () => void): Socket {
    const { isTls, hostname, port, lookup } = this.#target;
    const options = { host: hostname, port, onread, ...(lookup && { lookup }) };
    const socket = isTls ? this.#openTls(options) : connect(options);
    socket.setNoDelay(true).setKeepAlive(true, KEEP_ALIVE_MS);
    return socket.once(isTls ? 'secureConnect' : 'connect', onOpen);
  }

  #openTls(options: {
    readonly host: string;
    readonly port: number;
    readonly onread: OnReadOpts;
  }): TLSSocket {
    const { host } = options;
    const socket = connectTls({
      ...options,
      // An address is no name of a server (RFC 6066); its certificate is checked against the host.
      servername: isIP(host) ? '' : host,
      ALPNProtocols: ['http/1.1'],
      ...(this.#session && { session: this.#session }),
    });
    return socket.on('session', (session) => {
      this.#session = session;
    });
  }
}
