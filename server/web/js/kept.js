// What this browser, or this tab alone, keeps of what a person chose. Works without storage too.

function storage(area) {
  return {
    get(name) {
      try {
        return globalThis[area].getItem(`nodius.${name}`);
      } catch {
        return null; // storage is turned off
      }
    },
    // Keeps a text, or forgets it (null).
    put(name, value) {
      try {
        if (value === null) globalThis[area].removeItem(`nodius.${name}`);
        else globalThis[area].setItem(`nodius.${name}`, value);
      } catch {
        // chosen for this visit only
      }
    },
  };
}

export const kept = storage("localStorage");
export const keptInTab = storage("sessionStorage"); // until the tab is closed

// Whether the server keeps a session of this browser, from a sign-in at the identity provider.
export const hasSession = () => document.cookie.split("; ").includes("nodius_signed=1");
