import { printable } from '../session/output.ts';
import type { Session } from '../session/session.ts';

/** Prints only the secret on standard output, so that a shell can read it; the rest goes to standard error. */
export function showSecret(
  session: Session,
  of: { readonly id: string; readonly name: string },
  more: string,
  secret: string,
): void {
  if (session.json) {
    session.showOne(of);
    return;
  }
  session.err(`${printable(of.name)} (${of.id})${more}. The secret is shown only once:`);
  session.out(secret);
}
