import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useLocation } from '@tanstack/react-router';
import { useEffect } from 'react';
import { readSignInOptions, signIn } from '../api/client.ts';
import controls from '../ui/controls.module.css';
import { Form, TextField } from '../ui/fields.tsx';
import { useSearch } from '../ui/search.ts';
import { visible } from '../ui/text.ts';
import styles from './layout.module.css';
import { SESSION_KEY } from './session.ts';

/** `hasEnded`: a session ended while its page was open; signing in again shows that page. */
export function SignIn({ hasEnded }: { hasEnded: boolean }) {
  const queries = useQueryClient();
  const [{ sign_in }] = useSearch();
  const options = useQuery({ queryKey: ['sign-in options'], queryFn: readSignInOptions });
  useEffect(() => {
    document.title = 'Sign in · Weighbridge';
  }, []);
  const submit = async ({ key = '' }: Readonly<Record<string, string>>) => {
    const session = await signIn(key);
    // Nothing of whoever was signed in before is left for this person.
    queries.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== SESSION_KEY[0] });
    queries.setQueryData(SESSION_KEY, session);
  };
  // The first control has the focus, so all have to be known.
  if (options.isPending) {
    return (
      <div className={styles.signIn}>
        <h1>Sign in to Weighbridge</h1>
        <p role="status">Loading …</p>
      </div>
    );
  }
  // Without an answer there is the key.
  const oidc = options.data?.oidc;
  return (
    <div className={styles.signIn}>
      <h1>Sign in to Weighbridge</h1>
      {hasEnded && <p role="status">Your session ended. Sign in again to continue.</p>}
      {!hasEnded && sign_in === 'link_ended' && (
        <p role="status">
          This sign-in link was used or has expired: it works once, within 15 minutes. Start{' '}
          <code>weighbridge up</code> again for another link, or paste the operator’s key, which is in the
          file <code>operator-key</code> of its data folder.
        </p>
      )}
      {oidc && <SignInElsewhere name={oidc.name} />}
      <p>
        {oidc ? 'Or paste' : 'Paste'} your key. You see what it may see: your own spend, or everyone’s for an
        operator.
      </p>
      <Form submit="Sign in" onSubmit={submit}>
        <TextField
          label="Key"
          name="key"
          type="password"
          autoComplete="off"
          required
          autoFocus={!oidc}
          placeholder="sk-svc-…"
        />
      </Form>
    </div>
  );
}

/** Leads to the page of the issuer, and back to this one. */
function SignInElsewhere({ name }: { name: string }) {
  // Another page after going back or forth.
  useLocation();
  const { pathname, search, hash } = window.location;
  const query = new URLSearchParams({ return_to: `${pathname}${search}${hash}` });
  return (
    <a
      className={`${controls.button} ${controls.primary} ${styles.elsewhere}`}
      href={`/console/sign-in/oidc?${query}`}
    >
      Sign in with <bdi>{visible(name)}</bdi>
    </a>
  );
}
