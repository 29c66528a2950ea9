// The command `secrets rotate`: gives the secrets of the store another key, and says where that is and what is left to do. How it is
// done is access/secrets/secret_rotation.ts.
import { type Rotation, rotateSecrets } from '../access/secrets/secret_rotation.ts';
import type { Settings } from '../settings/read_settings.ts';
import type { Command } from './command.ts';
import { withStore } from './data_directory.ts';

export const rotateCommand: Command = {
  name: 'secrets rotate',
  doc: 'Encrypts the secrets of a stopped server with a new key, which takes the place of the one in the key file; or with the one that `--new-key-file` or TABULARIUM_SECRET_KEY_NEW gives.',
  run: async (settings, say) => {
    const rotation = await withStore(settings, (store, dataDirectory) =>
      rotateSecrets({
        store,
        dataDirectory,
        key: settings.secretKey,
        keyFile: settings.secretKeyFile,
        nextKey: settings.secretKeyNew,
        newKeyFile: settings.newKeyFile,
      }),
    );
    for (const line of outcome(rotation, settings)) say(line);
  },
};

function outcome({ secrets, keyFile, isInPlace }: Rotation, settings: Settings): string[] {
  const done = `${secrets} ${secrets === 1 ? 'secret is' : 'secrets are'} encrypted with the new key.`;
  if (isInPlace) return [done, `It is in ${keyFile}; back it up apart from the data.`];
  const old = settings.secretKey ? 'TABULARIUM_SECRET_KEY' : settings.secretKeyFile || 'the old key file';
  return [
    done,
    keyFile === undefined
      ? 'Start the server with the new key in TABULARIUM_SECRET_KEY.'
      : `Start the server with --secret-key-file ${keyFile}.`,
    `What ${old} holds opens nothing any more.`,
  ];
}
