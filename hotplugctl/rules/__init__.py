"""Rules, profiles and the taxonomy as data, and the judge that reads them against facts."""
