import { useQueryClient } from '@tanstack/react-query';
import { useEffect } from 'react';
import { signIn } from '../api/client.ts';
import { Form, TextField } from '../ui/fields.tsx';
import styles from './layout.module.css';
import { SESSION_KEY } from './session.ts';

/** `hasEnded`: a session ended while its page was open; signing in again shows that page. */
export function SignIn({ hasEnded }: { hasEnded: boolean }) {
  const queries = useQueryClient();
  useEffect(() => {
    document.title = 'Sign in · Weighbridge';
  }, []);
  const submit = async ({ key = '' }: Readonly<Record<string, string>>) => {
    const session = await signIn(key);
    // Nothing of whoever was signed in before is left for this person.
    queries.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== SESSION_KEY[0] });
    queries.setQueryData(SESSION_KEY, session);
  };
  return (
    <div className={styles.signIn}>
      <h1>Sign in to Weighbridge</h1>
      {hasEnded && <p role="status">Your session ended. Sign in again to go on where you were.</p>}
      <p>
        Paste a key that was issued to you. You see what it may see: your own spend, or everyone’s for an
        operator.
      </p>
      <Form submit="Sign in" onSubmit={submit}>
        <TextField
          label="Key"
          name="key"
          type="password"
          autoComplete="off"
          required
          autoFocus
          placeholder="sk-svc-…"
        />
      </Form>
    </div>
  );
}
