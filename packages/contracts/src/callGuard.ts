import { createHash, timingSafeEqual } from 'node:crypto';
import {
  type Metadata,
  ServerInterceptingCall,
  type ServerInterceptor,
  type ServerListener,
  status,
} from '@grpc/grpc-js';

const REFUSAL =
  'invalid_token: The token of this call is missing or wrong. Set the same CONTROL_PLANE_TOKEN for every app.';

/**
 * Refuses calls without the apps' shared token by their metadata alone: of a refused call, no message is read or decoded.
 * The control stream carries vendors' credentials, and a loopback port is open to every user of the machine.
 */
export function requireToken(token: string, onRefused: (method: string) => void): ServerInterceptor {
  return (method, call) =>
    new ServerInterceptingCall(call, {
      start(next) {
        const guard: Partial<ServerListener> = {
          onReceiveMetadata(metadata, pass) {
            if (hasToken(metadata, token)) return pass(metadata);
            onRefused(method.path.slice(method.path.lastIndexOf('/') + 1));
            call.sendStatus({ code: status.UNAUTHENTICATED, details: REFUSAL });
          },
        };
        next(guard as ServerListener);
      },
    });
}

function hasToken(metadata: Metadata, token: string): boolean {
  return isSameSecret(String(metadata.get('authorization')[0] ?? ''), `Bearer ${token}`);
}

/** In a time that depends neither on how much of a guess is right nor on the secret's length. */
function isSameSecret(given: string, wanted: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(given), digest(wanted));
}
