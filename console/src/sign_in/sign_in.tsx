// The sign-in page, in the place of any page while nobody is signed in: by token, user and password, or identity provider. It also shows
// how the sign-in proceeds that the page was opened with.
import { useQuery } from '@tanstack/react-query';
import { KeyRound } from 'lucide-react';
import { type FormEvent, useEffect, useState } from 'react';
import { errors } from '../../../src/client/index.ts';
import { Logo } from '../app/logo.tsx';
import { type SignedOut, signInWithPassword, signInWithToken } from '../app/session.ts';
import { arrivalSignIn, canUseProviders, openProvider, signInMethods } from '../app/sign_in_ways.ts';
import { Button } from '../ui/button.tsx';
import { ErrorPanel } from '../ui/error_panel.tsx';
import { Loading, Spinner } from '../ui/feedback.tsx';
import { Field, TextInput } from '../ui/field.tsx';
import { Tabs } from '../ui/layout/tabs.tsx';
import styles from './sign_in.module.css';

const notices: Readonly<Record<SignedOut, string | undefined>> = {
  notYet: undefined,
  byUser: 'You are signed out.',
  expired: 'Your sign-in has expired. Sign in again to continue where you were; your text is still here.',
};

type Way = 'password' | 'token';

export function SignIn({ reason }: { readonly reason: SignedOut }) {
  const [way, setWay] = useState<Way>('token');
  const notice = notices[reason];
  const arrival = useArrival();
  return (
    <main className={styles.page}>
      <div className={styles.card}>
        <header className={styles.header}>
          <Logo />
          <h1>Sign in to Tabularium</h1>
          <p>
            <code>{location.host}</code>
          </p>
        </header>
        {notice !== undefined && (
          <p role="status" className={styles.notice}>
            {notice}
          </p>
        )}
        {arrival.error !== undefined && (
          <p role="alert" className={styles.failure}>
            {arrival.error instanceof Error ? sentence(arrival.error.message) : 'The sign-in failed.'}
          </p>
        )}
        {arrival.isBusy ? <Loading label="Signing in" /> : <Ways way={way} setWay={setWay} />}
      </div>
    </main>
  );
}

const sentence = (text: string) => `${text.charAt(0).toUpperCase()}${text.slice(1)}${text.endsWith('.') ? '' : '.'}`;

/** The sign-in that the page was opened with, until it has failed. */
function useArrival(): { readonly isBusy: boolean; readonly error: unknown } {
  const [isBusy, setIsBusy] = useState(arrivalSignIn !== undefined);
  const [error, setError] = useState<unknown>();
  useEffect(() => {
    arrivalSignIn?.catch(setError).finally(() => setIsBusy(false));
  }, []);
  return { isBusy, error };
}

function Ways({ way, setWay }: { readonly way: Way; readonly setWay: (way: Way) => void }) {
  return (
    <>
      <Providers />
      <Tabs
        label="Ways to sign in"
        value={way}
        onChange={setWay}
        tabs={[
          { value: 'token', label: 'Token', content: <TokenForm /> },
          { value: 'password', label: 'User and password', content: <PasswordForm /> },
        ]}
      />
    </>
  );
}

/** Nothing while there are none, which is usual. */
function Providers() {
  const { data: methods = [] } = useQuery({
    queryKey: ['sign_in_methods'],
    queryFn: ({ signal }) => signInMethods(signal),
  });
  if (methods.length === 0) return null;
  return (
    <div className={styles.providers}>
      {methods.map((method) => (
        <Button
          key={method.name}
          size="large"
          disabled={method.authorizationEndpoint === null || !canUseProviders}
          onClick={() => void openProvider(method)}
        >
          <KeyRound aria-hidden />
          Continue with {method.name}
        </Button>
      ))}
      {!canUseProviders && <p>Identity providers need HTTPS.</p>}
      {methods.some(({ authorizationEndpoint }) => authorizationEndpoint === null) && (
        <p>An identity provider does not answer at present.</p>
      )}
    </div>
  );
}

/** Runs a sign-in: what is being waited for, and why it failed. */
function useSignIn(signIn: () => Promise<void>) {
  const [isBusy, setIsBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setIsBusy(true);
    setError(undefined);
    try {
      await signIn();
    } catch (failure) {
      setError(failure);
      setIsBusy(false);
    }
  };
  return { isBusy, error, submit: (event: FormEvent) => void submit(event) };
}

function TokenForm() {
  const [token, setToken] = useState('');
  const { isBusy, error, submit } = useSignIn(() => signInWithToken(token.trim()));
  return (
    <form className={styles.form} onSubmit={submit}>
      <Field
        label="Access token"
        description={
          <>
            The token of the user <code>root</code> is in the file <code>root.token</code> of the data directory.
          </>
        }
      >
        <TextInput type="password" name="token" value={token} onChange={setToken} isMonospace required autoFocus />
      </Field>
      <Failure error={error} invalid="This token is not valid. It may have expired or been revoked." />
      <Submit isBusy={isBusy} isReady={token.trim() !== ''} />
    </form>
  );
}

function PasswordForm() {
  const [user, setUser] = useState('');
  const [password, setPassword] = useState('');
  const { isBusy, error, submit } = useSignIn(() => signInWithPassword(user.trim(), password));
  return (
    <form className={styles.form} onSubmit={submit}>
      <Field label="User">
        <TextInput name="username" autoComplete="username" value={user} onChange={setUser} required autoFocus />
      </Field>
      <Field label="Password">
        <TextInput
          type="password"
          name="password"
          autoComplete="current-password"
          value={password}
          onChange={setPassword}
          required
        />
      </Field>
      <Failure error={error} invalid="The user or the password is wrong." />
      <Submit isBusy={isBusy} isReady={user.trim() !== '' && password !== ''} />
    </form>
  );
}

/** `invalid`: what to say instead of the message where the credentials are wrong, which is no fault of the server. */
function Failure({ error, invalid }: { readonly error: unknown; readonly invalid: string }) {
  if (error === undefined) return null;
  if (!(error instanceof errors.UNAUTHENTICATED)) return <ErrorPanel error={error} />;
  return (
    <p role="alert" className={styles.invalid}>
      {invalid}
    </p>
  );
}

function Submit({ isBusy, isReady }: { readonly isBusy: boolean; readonly isReady: boolean }) {
  return (
    <Button type="submit" look="primary" size="large" disabled={isBusy || !isReady}>
      {isBusy && <Spinner label="Signing in" />}
      Sign in
    </Button>
  );
}
